#include "longbow/nn/layers/set_block.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

const std::pair<const char*, const char*> kNames[] = {
    {"query", "fc_q"},        {"key", "fc_k"},      {"value", "fc_v"},
    {"feed_forward", "fc_o"}, {"read_norm", "ln0"}, {"norm", "ln1"}};

void set_block(Weights& weights, const Case& c, const std::string& ours,
               const std::string& theirs) {
  for (const auto& [name, recorded] : kNames)
    for (const std::string kind : {".weight", ".bias"})
      if (c.has(theirs + recorded + kind))
        weights.set(ours + name + kind, c.at(theirs + recorded + kind), theirs + recorded + kind);
}

// The authors' blocks change the width, so they are compared as such; the row keeps it.
struct Block : Weights {
  Block(const Case& c, const std::string& theirs, std::shared_ptr<SetBlock> made)
      : Weights(made), block(std::move(made)) {
    set_block(*this, c, "", theirs);
  }
  std::shared_ptr<SetBlock> block;
};
Block block_of(const Case& c, const std::string& theirs) {
  const auto w = c.at(theirs + "fc_q.weight");
  const Site site = {.shape = {.width = w.size(0), .heads = c.integer("heads")}};
  return {c, theirs,
          std::make_shared<SetBlock>(site, w.size(1), c.at(theirs + "fc_k.weight").size(1),
                                     SetStyle::reference, c.flag("ln"))};
}

void check_set(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const auto kind = c.text("block");
  Context context;
  if (kind == "ISAB") {
    const auto points = c.at("I").requires_grad_();
    const auto pack = block_of(c, "mab0."), read = block_of(c, "mab1.");
    const auto z = (*pack.block)(points, x, {}, context);
    expect_output(c, (*read.block)(x, z, {}, context), {});
    expect_gradient(c, "I", points.grad());
    pack.expect_gradients(c);
    read.expect_gradients(c);
  } else {
    const bool pooling = kind == "PMA";
    const auto seeds = pooling ? c.at("S").requires_grad_() : x;
    const auto block = block_of(c, "mab.");
    expect_output(c, (*block.block)(seeds, x, {}, context), {});
    if (pooling) expect_gradient(c, "S", seeds.grad());
    block.expect_gradients(c);
  }
  expect_gradient(c, "x", x.grad());
}

void check_row(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  if (c.text("block") != "SAB" || c.at("y").sizes() != x.sizes()) return;
  Layer layer("set", {.shape = {.width = x.size(2), .heads = c.integer("heads")}},
              std::string("{points: 0, norms: ") + (c.flag("ln") ? "true}" : "false}"));
  set_block(layer, c, "read.", "mab.");
  expect_output(c, layer(x, {}), {});
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
}

const std::pair<const char*, const char*> kPlainNames[] = {
    {"query", "wq"}, {"key", "wk"}, {"value", "wv"}, {"output", "wo"}};

Site isab_site(const Case& c) {
  return {.shape = {.width = c.at("x").size(2),
                    .heads = c.integer("heads"),
                    .head_width = c.integer("dim_head")},
          .bias = false};
}

void set_plain(Weights& weights, const Case& c, const std::string& ours, const char* number) {
  for (const auto& [name, theirs] : kPlainNames)
    weights.set(ours + name + ".weight", c.at(std::string(theirs) + number));
}

void check_isab(const Case& c) {
  const auto latents = c.at("latents");
  Layer layer("set", isab_site(c),
              "{style: plain, points: " + std::to_string(latents.size(0)) + "}");
  layer.set("points", latents);
  set_plain(layer, c, "pack.", "1");
  set_plain(layer, c, "read.", "2");
  const auto rows = c.has("keep") ? c.at("keep").unsqueeze(-1) : Tensor();
  expect_output(c, layer(c.at("x"), {.mask = mask_of(c)}), rows);
}

// The library also returns what was packed, and has gradients through it and through padded
// queries.
void check_isab_gradients(const Case& c) {
  const auto x = c.at("x").requires_grad_(), latents = c.at("latents").requires_grad_();
  const auto block = [&](const char* number) {
    auto made = std::make_shared<SetBlock>(isab_site(c), x.size(2), x.size(2), SetStyle::plain,
                                           /*norms=*/false);
    Weights weights(made);
    set_plain(weights, c, "", number);
    return made;
  };
  const auto pack = block("1"), read = block("2");
  Context context;
  const auto z = (*pack)(latents.unsqueeze(0), x, mask_of(c).keep, context);
  EXPECT_NEAR_TENSOR(z, c.at("latents_out"), (Tolerance{1e-12, 1e-12})) << c.name;
  const auto y = (*read)(x, z, {}, context);
  ((y * c.at("g")).sum() + (z * c.at("g_latents_out")).sum()).backward();
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, "latents", latents.grad());
  expect_gradient(c, "wq1", pack->named_parameters()["query.weight"].grad());
}

const Reader set("settransformer-", {check_set, check_row});
const Reader isab("isab-lucid", {check_isab, check_isab_gradients});

}  // namespace
}  // namespace longbow::parity

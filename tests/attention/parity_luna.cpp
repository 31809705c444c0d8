#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

const std::pair<const char*, const char*> kNames[] = {{"pack_query", "pack_%q"},
                                                      {"pack_key", "pack_%c"},
                                                      {"pack_key", "pack_%k"},
                                                      {"pack_value", "pack_%v"},
                                                      {"query", "%q"},
                                                      {"key", "%c"},
                                                      {"key", "%k"},
                                                      {"value", "%v"},
                                                      {"output", "%o"}};

std::string filled(std::string name, char kind) {
  return name.replace(name.find('%'), 1, 1, kind);
}

// The reference returns what was packed; the layer hands on LN(P + packed). So the part of the
// gradients that comes through `packed` is that of this formula.
struct Packed {
  std::map<std::string, Tensor> leaves;
  Tensor value;
};
Packed packed_by_formula(const Case& c, const Tensor& p, const Tensor& source) {
  Packed result;
  const auto projected = [&](const Tensor& x, const std::string& name) {
    const auto &w = result.leaves["pack_w" + name] = c.at("pack_w" + name).requires_grad_(),
               &b = result.leaves["pack_b" + name] = c.at("pack_b" + name).requires_grad_();
    return split_heads(at::linear(x, w, b), c.integer("pack_heads"));
  };
  const bool tied = c.flag("tied", true);
  const auto q = projected(p, "q"), k = projected(source, tied ? "c" : "k"),
             v = tied ? k : projected(source, "v");
  auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(3)));
  if (c.has("keep"))
    scores = scores.masked_fill(c.at("keep").eq(0).unsqueeze(1).unsqueeze(1), -INFINITY);
  result.value = merge_heads(scores.softmax(-1).matmul(v));
  return result;
}

void check_luna(const Case& c) {
  const auto x = c.at("x").requires_grad_(), p = c.at("p").requires_grad_();
  const bool crossing = c.has("context");
  const std::string carry = crossing ? "all.luna" : "luna";
  Context context = {.mask = mask_of(c), .carry = {{carry, p}}};
  if (crossing) context.memory = c.at("context").requires_grad_();
  const auto source = crossing ? context.memory : x;
  Layer layer(
      "luna",
      {.shape = {.width = x.size(2), .heads = c.integer("heads"), .memory_width = source.size(2)},
       .cross = crossing},
      "{length: " + std::to_string(p.size(1)) +
          ", pack_heads: " + std::to_string(c.integer("pack_heads", 0)) + ", tied: " +
          (c.flag("tied", true) ? "true" : "false") + ", psi: " + c.text("psi", "softplus") + "}");
  for (const auto& [ours, theirs] : kNames) {
    if (!c.has(filled(theirs, 'w'))) continue;
    layer.set(std::string(ours) + ".weight", c.at(filled(theirs, 'w')));
    layer.set(std::string(ours) + ".bias", c.at(filled(theirs, 'b')));
  }
  layer.set("norm.weight", at::ones({x.size(2)}, at::kDouble));
  Tensor rows;
  if (c.has("keep") && !crossing) rows = c.at("keep").unsqueeze(-1);
  expect_output(c, layer(x, context), rows);
  Packed packed;
  if (c.has("packed")) {
    packed = packed_by_formula(c, p, source);
    EXPECT_NEAR_TENSOR(packed.value, c.at("packed"), (Tolerance{1e-12, 1e-12})) << c.name;
    EXPECT_NEAR_TENSOR(context.carry.at(carry), at::layer_norm(p + c.at("packed"), {x.size(2)}),
                       (Tolerance{1e-12, 1e-12}))
        << c.name;
    (packed.value * c.at("g_packed")).sum().backward();
  }
  if (!probes_only(c, rows)) return;
  for (const auto& [ours, theirs] : kNames)
    for (const char kind : {'w', 'b'}) {
      const auto name = filled(theirs, kind);
      if (!c.has(name)) continue;
      auto gradient = layer.gradient(std::string(ours) + (kind == 'w' ? ".weight" : ".bias"));
      if (packed.leaves.count(name)) gradient = gradient + packed.leaves.at(name).grad();
      expect_gradient(c, name, gradient);
    }
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, "p", p.grad());
  if (crossing) expect_gradient(c, "context", context.memory.grad());
}

const Reader luna("luna", {check_luna});

}  // namespace
}  // namespace longbow::parity

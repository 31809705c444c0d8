#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::string options_of(const Case& c) {
  const bool top = c.flag("non_permutative");
  std::string options = "{block: " + std::to_string(c.integer("block"));
  options += top ? ", mixing: top, temperature: 1" : ", mixing: sinkhorn, positive: true";
  if (!top) options += ", temperature: " + std::to_string(c.number("temperature", 1));
  options += ", iterations: " + std::to_string(c.integer("iterations"));
  options += ", picks: " + std::to_string(c.integer("n_top"));
  return options + ", cut: " + std::to_string(c.integer("sortcut")) + "}";
}

void check_sortcut(const Case& c) {
  check_core(c, "sinkhorn", options_of(c));
}

// Without SortCut the library takes the mixed keys for mixed values. Our weights are its weights:
// with them and its mixing matrix its output is formed here.
void check_weights(const Case& c) {
  const auto q = c.at("q"), k = c.at("k"), v = c.at("v");
  const int64_t heads = q.size(1), inner = heads * q.size(3), b = c.integer("block"),
                blocks = q.size(2) / b;
  const auto mixer = make_mixer(
      "sinkhorn", {.shape = {.width = 3 * inner, .heads = heads, .head_width = q.size(3)}},
      options_of(c));
  Weights weights(mixer);
  int64_t part = 0;
  for (const std::string name : {"query", "key", "value"}) {
    auto weight = at::zeros({inner, 3 * inner}, at::kDouble);
    weight.narrow(1, part++ * inner, inner).copy_(at::eye(inner));
    weights.set(name + ".weight", weight);
  }
  Tensors maps;
  Choices choices;
  Context context = {.maps = &maps};
  if (c.has("gumbel")) {  // it draws noise in evaluation too
    choices = {.mode = Choices::Mode::replay,
               .kept = {{".noise", c.at("gumbel").view({-1, heads, blocks, blocks})}}};
    context.choices = &choices;
    mixer->train();
  }
  (void)(*mixer)(at::cat({merge_heads(q), merge_heads(k), merge_heads(v)}, 2), context);
  const auto cut = [&](const Tensor& x) { return x.unflatten(2, {blocks, b}); };
  const auto mixed =
      at::einsum("bhuv,bhvsd->bhusd", {c.at("R").view({-1, heads, blocks, blocks}), cut(k)});
  const auto y = maps.at("").matmul(at::cat({mixed, cut(v)}, 3)).flatten(2, 3);
  EXPECT_NEAR_TENSOR(y, c.at("y"), (Tolerance{1e-12, 1e-12})) << c.name;
}

const Reader sortcut("sinkhorn-sortcut", {check_sortcut});
const Reader balanced("sinkhorn-balanced", {check_weights});
const Reader top("sinkhorn-top", {check_weights});
const SetAside causal("sinkhorn-causal",
                      "half of its heads are rotated by b - 1 tokens, and rows of scores have "
                      "block sums of running means of keys; the outputs differ by 2.7");

}  // namespace
}  // namespace longbow::parity

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_softmax(const Case& c) {
  check_projected(c, "softmax", "");
}
void check_softmax_naive(const Case& c) {
  check_projected(c, "softmax", "{form: naive}");
}

// u = LN1(x + attention(x)), y = LN2(u + W2 act(W1 u)), compared where a query is real.
void check_post_norm_layer(const Case& c) {
  std::map<std::string, Tensor> leaves;
  const auto leaf = [&](const std::string& name) {
    return leaves.emplace(name, c.at(name).requires_grad_()).first->second;
  };
  const auto normed = [&](const Tensor& x, const std::string& name) {
    return at::layer_norm(x, {x.size(2)}, leaf(name + "_gain"), leaf(name + "_bias"),
                          c.number("eps", 1e-12));
  };
  const auto x = leaf("x");
  Context context = {.mask = mask_of(c)};
  Layer layer("softmax",
              {.shape = {.width = x.size(2), .heads = c.integer("heads"), .max_length = x.size(1)}},
              "");
  const std::pair<const char*, const char*> names[] = {
      {"query.", "q"}, {"key.", "k"}, {"value.", "v"}, {"output.", "o"}};
  for (const auto& [ours, theirs] : names) {
    layer.set(std::string(ours) + "weight", c.at(std::string("w") + theirs));
    layer.set(std::string(ours) + "bias", c.at(std::string("b") + theirs));
  }
  const auto u = normed(x + layer(x, context), "ln1");
  const auto hidden = at::gelu(at::linear(u, leaf("w1"), leaf("b1")),
                               c.text("act", "gelu") == "gelu" ? "none" : "tanh");
  const auto y = normed(u + at::linear(hidden, leaf("w2"), leaf("b2")), "ln2");
  Tensor rows;
  if (context.mask.keep.defined()) rows = context.mask.keep.unsqueeze(-1).to(at::kDouble);
  expect_output(c, y, rows);
  for (const auto& [name, tensor] : leaves) expect_gradient(c, name, tensor.grad());
  for (const auto& [ours, theirs] : names) {
    expect_gradient(c, std::string("w") + theirs, layer.gradient(std::string(ours) + "weight"));
    expect_gradient(c, std::string("b") + theirs, layer.gradient(std::string(ours) + "bias"));
  }
}

const Reader self("bert-self", {check_softmax, check_softmax_naive});
const Reader cross("bert-cross", {check_softmax, check_softmax_naive});
const Reader layer("bert-layer", {check_post_norm_layer});

}  // namespace
}  // namespace longbow::parity

#include <cmath>

#include "longbow/ops/decayed_product.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The product alone: queries, keys, values and decays are given. Retention names its decay in
// words.
Tensor decays(const Case& c, const Tensor& given, const Tensor& q) {
  if (given.defined()) return given.dim() == 3 ? given.unsqueeze(-1) : given;
  const auto head = at::arange(q.size(1), q.options().requires_grad(false));
  TORCH_CHECK(c.text("decay") == "1-2^(-5-h), h = 0..", c.name, ": another decay");
  return at::log1p(-at::exp2(-5 - head)).view({1, -1, 1, 1}).expand({q.size(0), -1, q.size(2), 1});
}

void check_product(const Case& c) {
  std::map<std::string, Tensor> leaves;
  for (const std::string name : {"q", "k", "v", "log_decay", "initial_state"})
    if (c.has(name)) leaves[name] = c.at(name).requires_grad_();
  const auto& q = leaves["q"];
  auto sums = c.has("initial_state") ? leaves["initial_state"] : Tensor();
  const auto g = decays(c, c.has("log_decay") ? leaves["log_decay"] : Tensor(), q);
  const auto y = decayed_product(q * c.number("scale", 1), leaves["k"], leaves["v"], g, {}, sums);
  expect_output(c, y, {});
  if (c.has("final_state"))
    EXPECT_NEAR_TENSOR(sums, c.at("final_state"), (Tolerance{1e-12, 1e-12})) << c.name;
  for (const auto& [name, leaf] : leaves) expect_gradient(c, name, leaf.grad());
}

const Reader gla("gla", {check_product});
const Reader simple_gla("simple-gla", {check_product});
const Reader retention("retention", {check_product});

}  // namespace
}  // namespace longbow::parity

#include "longbow/ops/delta_product.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The product alone: queries, keys of length one, values, beta and decays are given.
void check_product(const Case& c) {
  std::map<std::string, Tensor> leaves;
  for (const std::string name : {"q", "k", "v", "beta", "log_decay", "initial_state"})
    if (c.has(name)) leaves[name] = c.at(name).requires_grad_();
  auto sums = c.has("initial_state") ? leaves["initial_state"] : Tensor();
  const auto decay = c.has("log_decay") ? leaves["log_decay"].unsqueeze(-1) : Tensor();
  const auto y = delta_product(leaves["q"] * c.number("scale", 1), leaves["k"], leaves["v"],
                               leaves["beta"].unsqueeze(-1), decay, {}, sums);
  expect_output(c, y, {});
  if (c.has("final_state"))
    EXPECT_NEAR_TENSOR(sums, c.at("final_state"), (Tolerance{1e-12, 1e-12})) << c.name;
  for (const auto& [name, leaf] : leaves) expect_gradient(c, name, leaf.grad());
}

const Reader delta("delta-rule", {check_product});
const Reader gated_delta("gated-delta-rule", {check_product});

}  // namespace
}  // namespace longbow::parity

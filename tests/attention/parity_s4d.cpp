#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The whole layer of state-spaces/s4, which looks back only.
void check_s4d(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("s4d", {.shape = {.width = x.size(2)}},
              "{bidirectional: false, state: " + std::to_string(c.integer("d_state")) + "}");
  const std::pair<std::string, std::string> names[] = {
      {"log_step", "log_dt"}, {"log_decay", "log_A_real"}, {"frequency", "A_imag"}, {"read", "C"},
      {"skip", "D"},          {"output.weight", "W_out"},  {"output.bias", "b_out"}};
  for (const auto& [ours, theirs] : names) layer.set(ours, c.at(theirs), theirs);
  expect_output(c, layer(x, {.mask = {.causal = true}}), {});
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
}

const Reader s4d("s4d", {check_s4d});

}  // namespace
}  // namespace longbow::parity

#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The system of s5-pytorch without an activation. It keeps the whole spectrum and has no factor 2,
// so that all its states are ours and its read-out counts half.
void check_s5(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const int64_t modes = c.integer("state");
  const bool bidirectional = c.flag("bidirectional");
  Layer layer("s5", {.shape = {.width = x.size(2)}},
              "{activation: none, state: " + std::to_string(2 * modes) +
                  ", discretization: " + c.text("discretization") +
                  ", bidirectional: " + (bidirectional ? "true}" : "false}"));
  layer.set("lambda", c.at("Lambda"), "Lambda");
  layer.set("log_step", c.at("log_step"), "log_step");
  layer.set("input", c.at("B"), "B");
  layer.set("skip", c.at("D"), "D");
  const auto read = c.at("C") / 2;  // [C, P or 2 P, 2]
  layer.set("read", read.narrow(1, 0, modes));
  if (bidirectional) layer.set("read_ahead", read.narrow(1, modes, modes));
  expect_output(c, layer(x, {.mask = {.causal = !bidirectional}}), {});
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
  auto slopes = layer.gradient("read");
  if (bidirectional) slopes = at::cat({slopes, layer.gradient("read_ahead")}, 1);
  expect_gradient(c, "C", slopes / 2);
}

const Reader s5("s5", {check_s5});

}  // namespace
}  // namespace longbow::parity

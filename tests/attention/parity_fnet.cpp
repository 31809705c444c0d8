#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_fnet(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("fnet", {.shape = {.width = x.size(2), .max_length = 64}}, "{ortho: false}");
  expect_output(c, layer(x, {}), {});
  expect_gradient(c, "x", x.grad());
}

const Reader mix("fnet-mix", {check_fnet});
const SetAside layer("fnet-layer", "a whole block with post-norm, not one mixer");

}  // namespace
}  // namespace longbow::parity

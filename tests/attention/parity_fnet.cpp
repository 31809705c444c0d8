#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_mix(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("fnet", {.shape = {.width = x.size(2), .max_length = x.size(1)}}, "{ortho: false}");
  expect_output(c, layer(x, {}), {});
  expect_gradient(c, "x", x.grad());
}
void check_layer(const Case& c) {
  check_block(c, "fnet", "{ortho: false}");
}

const Reader mix("fnet-mix", {check_mix});
const Reader layer("fnet-layer", {check_layer});

}  // namespace
}  // namespace longbow::parity

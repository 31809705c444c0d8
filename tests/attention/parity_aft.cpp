#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// A matrix of all pairs [L, L]; our local form keeps the diagonals within the window only.
Tensor within(const Tensor& bias, int64_t window) {
  const int64_t longest = bias.size(0), reach = std::min(window, longest) - 1;
  auto band = at::zeros({longest, 2 * reach + 1}, at::kDouble);
  for (int64_t offset = -reach; offset <= reach; ++offset)
    band.select(1, offset + reach)
        .narrow(0, std::max<int64_t>(0, -offset), longest - std::abs(offset))
        .copy_(bias.diagonal(offset));
  return band;
}

void check_aft(const Case& c) {
  const auto form = c.text("form");
  auto options = "{form: " + form;
  if (form != "simple") options += ", max_length: " + std::to_string(c.at("position_bias").size(0));
  if (form == "local") options += ", window: " + std::to_string(c.integer("window"));
  check_projected(c, "aft", options + "}", [&](Layer& layer) {
    if (form == "full") layer.set("bias", c.at("position_bias"), "position_bias");
    if (form == "local") layer.set("bias", within(c.at("position_bias"), c.integer("window")));
  });
}

const Reader aft("aft", {check_aft});

}  // namespace
}  // namespace longbow::parity

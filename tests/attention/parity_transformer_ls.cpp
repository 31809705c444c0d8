#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The two folders name the same tensors and options differently.
std::string renamed(const std::string& theirs) {
  const std::map<std::string, std::string> names = {{"ln_win_w", "ln_window_gain"},
                                                    {"ln_win_b", "ln_window_bias"},
                                                    {"ln_proj_w", "ln_projected_gain"},
                                                    {"ln_proj_b", "ln_projected_bias"},
                                                    {"valid", "keep"}};
  if (const auto found = names.find(theirs); found != names.end()) return found->second;
  const bool projection =
      theirs.size() == 3 && theirs[1] == '_' && (theirs[0] == 'W' || theirs[0] == 'b');
  return projection ? std::string(theirs[0] == 'W' ? "w" : "b") + theirs[2] : theirs;
}
Case with_common_names(const Case& c) {
  Case result = {c.name, c.config, {}};
  for (const auto& [name, tensor] : c.tensors) {
    const bool gradient = name.rfind("grad_", 0) == 0;
    result.tensors[gradient ? "grad_" + renamed(name.substr(5)) : renamed(name)] = tensor;
  }
  return result;
}

void check_lra(const Case& given) {
  const auto c = with_common_names(given);
  const int64_t taps = std::max<int64_t>(c.integer("conv", 0), 0);
  const bool cls = c.flag("cls") || c.text("pooling") == "cls";
  const auto options =
      c10::str("{window: ", c.integer("window"),
               ", rank: ", c.has("wp") ? c.at("wp").size(0) / c.integer("heads") : 0,
               ", cls: ", cls ? "true" : "false", ", convolution: ", taps, "}");
  const std::map<std::string, std::string> others = {
      {"wp", "attention.projection"},
      {"ln_window_gain", "attention.window_norm.weight"},
      {"ln_window_bias", "attention.window_norm.bias"},
      {"ln_projected_gain", "attention.rank_norm.weight"},
      {"ln_projected_bias", "attention.rank_norm.bias"}};
  check_projected(c, "transformer_ls", options,
                  [&](Layer& layer) {
                    for (const auto& [theirs, ours] : others) layer.set(ours, c.at(theirs), theirs);
                    if (taps > 0) layer.set("attention.taps", c.at("conv_w").flatten(1));
                  },
                  {.after = [&](const Layer& layer) {
                    if (taps > 0)
                      expect_gradient(
                          c, "conv_w",
                          layer.gradient("attention.taps").view(c.at("conv_w").sizes()));
                  }});
}

const Reader recurrence("transformer-ls", {check_lra});
const Reader zoo("longshort-nvidia", {check_lra});
const SetAside causal("transformer-ls-causal",
                      "relative positions as in Transformer-XL, and cached chunks whose hidden "
                      "states are projected head by head before W_k mixes the heads: outputs of "
                      "up to 1.9 differ by up to 1.2");
const SetAside lucid("longshort-lucid",
                     "keys that serve as values, so that values are rotated too, logits of the "
                     "projection from those, norms of each head alone, and the last token of a "
                     "segment reads the rows of its own: outputs of up to 2.7 differ by up to 2.8");

}  // namespace
}  // namespace longbow::parity

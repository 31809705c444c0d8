#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The library's block without its outer norm and residual; its "circulant" matrix is the lower
// Toeplitz one.
void check_gmlp(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const bool circulant = c.flag("circulant");
  const int64_t attention = c.integer("attn_dim", 0);
  Layer layer("gmlp", {.shape = {.width = x.size(2), .max_length = c.at("spatial_bias").size(1)}},
              "{width: " + std::to_string(c.at("u").size(0)) +
                  ", groups: " + std::to_string(c.integer("heads", 1)) +
                  ", attention: " + std::to_string(attention) +
                  ", spatial: " + (circulant ? "lower_toeplitz}" : "full}"));
  std::map<std::string, std::string> names = {
      {"up.weight", "u"},      {"up.bias", "u_bias"},           {"down.weight", "v"},
      {"down.bias", "v_bias"}, {"gate_norm.weight", "ln_gain"}, {"gate_norm.bias", "ln_bias"},
      {"spatial", "spatial"},  {"spatial_bias", "spatial_bias"}};
  if (circulant) names.insert({{"row_scale", "pos_x"}, {"column_scale", "pos_y"}});
  if (attention > 0)
    names.insert({{"query.weight", "attn_wq"},
                  {"key.weight", "attn_wk"},
                  {"value.weight", "attn_wv"},
                  {"attention_output.weight", "attn_wo"},
                  {"attention_output.bias", "attn_bo"}});
  for (const auto& [ours, theirs] : names) layer.set(ours, c.at(theirs));
  expect_output(c, layer(x, {.mask = mask_of(c)}), {});
  expect_gradient(c, "x", x.grad());
  for (const auto& [ours, theirs] : names) expect_gradient(c, theirs, layer.gradient(ours));
}

const Reader gmlp("gmlp", {check_gmlp});

}  // namespace
}  // namespace longbow::parity

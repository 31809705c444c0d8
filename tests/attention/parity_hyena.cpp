#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The operator of hyena-dna, which looks back only.
void check_hyena(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  Layer layer("hyena", {.shape = {.width = x.size(2), .max_length = c.integer("l_max")}},
              "{bidirectional: false, order: " + std::to_string(c.integer("order")) +
                  ", filter_width: " + std::to_string(c.integer("filter_order")) +
                  ", features: " + std::to_string(c.integer("emb_dim")) +
                  ", shift: " + std::to_string(c.number("shift", 0)) + "}");
  const std::pair<std::string, std::string> same[] = {
      {"input.weight", "W_in"},   {"input.bias", "b_in"},     {"output.weight", "W_out"},
      {"output.bias", "b_out"},   {"short.bias", "short_b"},  {"skip", "d"},
      {"filter.weight0", "f_W0"}, {"filter.bias0", "f_b0"},   {"filter.weight1", "f_W1"},
      {"filter.bias1", "f_b1"},   {"filter.weight2", "f_W2"}, {"filter.bias2", "f_b2"},
      {"filter.last", "f_W3"}};
  for (const auto& [ours, theirs] : same) layer.set(ours, c.at(theirs), theirs);
  layer.set("short.weight", c.at("short_w").squeeze(1));
  layer.set("filter.frequency", c.at("f_freq").squeeze(0));
  layer.set("filter.features", c.at("pos_z").squeeze(0));
  expect_output(c, layer(x, {.mask = {.causal = true}}), {});
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, "short_w", layer.gradient("short.weight").unsqueeze(1));
  expect_gradient(c, "f_freq", layer.gradient("filter.frequency").unsqueeze(0));
  expect_gradient(c, "pos_z", layer.gradient("filter.features").unsqueeze(0));
  layer.expect_gradients(c);
}

const Reader hyena("hyena", {check_hyena});

}  // namespace
}  // namespace longbow::parity

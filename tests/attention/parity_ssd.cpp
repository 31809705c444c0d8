#include "longbow/ops/decayed_product.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// The product alone: q = C, k = B, v = dt x, log decay = A dt; their states are [B, H, P, n].
void check_product(const Case& c) {
  std::map<std::string, Tensor> leaves;
  for (const std::string name : {"x", "A", "B", "C", "dt", "initial_state"})
    if (c.has(name)) leaves[name] = c.at(name).requires_grad_();
  auto sums = c.has("initial_state") ? leaves["initial_state"].transpose(2, 3) : Tensor();
  const auto step = leaves["dt"].unsqueeze(-1);  // [B, H, N, 1]
  const auto y =
      decayed_product(leaves["C"], leaves["B"], step * leaves["x"],
                      leaves["A"].view({1, -1, 1, 1}) * step, {.fading = Fading::columns}, sums);
  expect_output(c, y, {});
  EXPECT_NEAR_TENSOR(sums.transpose(2, 3), c.at("final_state"), (Tolerance{1e-12, 1e-12}))
      << c.name;
  for (const auto& [name, leaf] : leaves) expect_gradient(c, name, leaf.grad());
}

// The layer of transformers, whose norm runs over all channels. Two collections name its tensors
// differently.
void check_layer(const Case& c) {
  const bool capitals = c.has("W_in");
  const auto name = [&](const char* first, const char* second) {
    return std::string(capitals ? first : second);
  };
  const auto x = c.at("x").requires_grad_();
  TORCH_CHECK(c.integer("heads") % 2 == 0, c.name, ": an odd number of heads");
  Layer layer("ssd",
              {.shape = {.width = x.size(2),
                         .heads = c.integer("heads") / 2,
                         .head_width = c.integer("head_width"),
                         .max_length = x.size(1)}},
              c10::str("{norm: all, state: ", c.integer("state"), ", groups: ", c.integer("groups"),
                       ", convolution: ", c.integer(name("conv", "kernel")),
                       ", norm_epsilon: ", c.number(name("norm_eps", "eps"), 1e-5), "}"));
  const auto set = [&](const std::string& ours, const std::string& theirs) {
    if (c.has(theirs)) layer.set("forward." + ours, c.at(theirs), theirs);
  };
  set("input.weight", name("W_in", "w_in"));
  set("input.bias", "b_in");
  set("output.weight", name("W_out", "wo"));
  set("output.bias", "bo");
  set("convolution.bias", name("conv_b", "conv_bias"));
  set("norm.weight", name("norm_w", "norm_gain"));
  set("steps.log_rate", name("A_log", "a_log"));
  set("steps.bias", "dt_bias");
  set("skip", name("D", "d_skip"));
  const auto taps = name("conv_w", "conv");
  layer.set("forward.convolution.weight", c.at(taps).flatten(1));
  auto mask = mask_of(c);
  mask.causal = true;
  const auto rows = mask.keep.defined() ? mask.keep.unsqueeze(-1).to(at::kDouble) : Tensor();
  expect_output(c, layer(x, {.mask = mask}), rows);
  if (rows.defined() && !probes_only(c, rows)) return;
  expect_gradient(c, "x", x.grad());
  expect_gradient(c, taps, layer.gradient("forward.convolution.weight").view_as(c.at(taps)));
  layer.expect_gradients(c);
}

const Reader product("mamba2-ssd", {check_product});
const Reader layer("mamba2", {check_layer});

}  // namespace
}  // namespace longbow::parity

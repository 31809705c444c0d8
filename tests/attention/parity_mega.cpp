#include "longbow/attention/mega/moving_average.h"
#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

Mask mask_of_mega(const Case& c) {
  Mask mask = mask_of(c);
  mask.causal = !c.flag("bidirectional");
  // The recorded causal layers do not use it.
  if (c.has("valid") && !mask.causal) mask.keep = c.tensors.at("valid") > 0;
  return mask;
}
Tensor rows_of(const Mask& mask) {
  return mask.keep.defined() ? mask.keep.unsqueeze(-1).to(at::kDouble) : Tensor();
}

// Parameters of an average have a last dimension of one in the authors' code.
Tensor by_component(const Case& c, const std::string& name) {
  const auto t = c.at(name);
  return t.dim() == 3 ? t.squeeze(2) : t;
}

void set_average(const Case& c, Weights& weights, const std::string& prefix) {
  for (const std::string name : {"delta", "alpha", "beta", "eta", "omega"})
    weights.set(prefix + name, by_component(c, name));
}
void expect_average(const Case& c, const Weights& weights, const std::string& prefix) {
  for (const std::string name : {"delta", "alpha", "beta", "eta", "omega"})
    if (c.has("grad_" + name))
      expect_gradient(c, name, weights.gradient(prefix + name).view(c.at(name).sizes()));
}

std::shared_ptr<MovingAverage> average_of(int64_t width, int64_t components, bool bidirectional) {
  return std::make_shared<MovingAverage>(Site{.shape = {.width = width}}, components,
                                         bidirectional);
}

// The average alone, of transformers and of the authors.
void check_average(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const auto average = average_of(x.size(2), c.integer("components"), c.flag("bidirectional"));
  Weights weights(average);
  set_average(c, weights, "");
  auto mask = mask_of_mega(c);
  if (c.has("valid")) mask.keep = c.tensors.at("valid") > 0;
  expect_output(c, (*average)(x, mask), rows_of(mask));
  if (!probes_only(c, rows_of(mask))) return;
  expect_gradient(c, "x", x.grad());
  expect_average(c, weights, "");
}

// lucidrains' average decays by (1 - a) d instead of 1 - a d. With p near 1 and
// sigmoid(alpha) = (1 - (1 - a) d) / p it is ours, before the SiLU.
void check_other_average(const Case& c) {
  const auto x = c.at("x");
  const int64_t heads = c.integer("heads"), width = x.size(2);
  const bool bidirectional = c.flag("bidirectional");
  const auto average = average_of(width, heads, bidirectional);
  Weights weights(average);
  constexpr double kP = 1 - 1e-9;
  std::vector<Tensor> alpha, beta;
  for (const std::string direction : {"", "reverse_"}) {
    if (!c.has(direction + "alphas")) continue;
    const auto a = c.at(direction + "alphas").sigmoid(),
               d = c.at(direction + "dampen_factors").sigmoid();
    alpha.push_back(at::logit((1 - (1 - a) * d) / kP).expand({width, heads}));
    beta.push_back((a / kP).expand({width, heads}));
  }
  const auto by_channel = [&](const std::string& name) {  // [directions H, C] -> [directions C, H]
    return c.at(name).view({-1, heads, width}).transpose(1, 2).reshape({-1, heads});
  };
  weights.set("delta", at::full({by_channel("expansion").size(0), heads}, std::log(kP / (1 - kP)),
                                at::kDouble));
  weights.set("alpha", at::cat(alpha));
  weights.set("beta", at::cat(beta) * by_channel("expansion"));
  weights.set("eta", by_channel("reduction") * std::sqrt(static_cast<double>(heads)));
  const auto got = (*average)(x, {.causal = !bidirectional});
  EXPECT_NEAR_TENSOR(got, at::silu(c.at("y")), (Tolerance{1e-12, 1e-12})) << c.name;
}

std::string options_of_mega(const Case& c) {
  const int64_t chunk = std::max<int64_t>(0, c.integer("chunk", -1));
  const auto integer = [&](const char* one, const char* other) {
    return std::to_string(c.integer(one, c.integer(other, 0)));
  };
  return "{chunk: " + std::to_string(chunk) + ", hidden: " + std::to_string(c.integer("hidden")) +
         ", shared: " + integer("z", "shared") +
         ", components: " + std::to_string(c.integer("components")) +
         ", function: " + c.text("activation", c.text("attention")) + ", bias: " + c.text("bias") +
         ", bidirectional: " + (c.flag("bidirectional") ? "true" : "false") +
         ", norm: " + (c.flag("prenorm", c.flag("pre_norm")) ? "true}" : "false}");
}

// The whole layer with its residual, and its norm before or after. Biases of distances that no
// chunk has are cut off.
void check_layer(const Case& c) {
  const auto x = c.at("x").requires_grad_();
  const bool pre_norm = c.flag("prenorm", c.flag("pre_norm"));
  const auto named = [&](const std::string& one, const std::string& other) {
    return c.has(one) ? one : other;
  };
  const auto table = named("rel_bias", "bias_table");
  const Site site = {
      .shape = {.width = x.size(2),
                .max_length = c.has(table) ? (c.at(table).size(0) + 1) / 2 : x.size(1)}};
  Layer layer("mega", site, options_of_mega(c));
  const std::pair<std::string, std::string> same[] = {
      {"value.weight", named("W_v", "wv")},    {"value.bias", named("b_v", "bv")},
      {"gates.weight", named("W_mx", "w_mx")}, {"gates.bias", "b_mx"},
      {"output.weight", named("W_h", "w_h")},  {"output.bias", "b_h"},
      {"gain", named("qk_gamma", "qk_gain")},  {"offset", named("qk_beta", "qk_offset")}};
  for (const auto& [ours, theirs] : same) layer.set(ours, c.at(theirs), theirs);
  set_average(c, layer, "average.");
  const auto gain = c.at(named("ln_w", "norm_gain")).requires_grad_(),
             shift = c.at(named("ln_b", "norm_bias")).requires_grad_();
  if (pre_norm) {
    layer.set("norm.weight", gain, named("ln_w", "norm_gain"));
    layer.set("norm.bias", shift, named("ln_b", "norm_bias"));
  }
  const int64_t chunk = c.integer("chunk", -1);
  const bool simple = c.text("bias") == "simple";
  const auto used = [&](const Tensor& all) {
    return chunk > 0 ? all.narrow(0, c.integer("bias_centre", chunk - 1) + 1 - chunk, 2 * chunk - 1)
                     : all;
  };
  const auto a = named("rot_a", "bias_a"), b = named("rot_b", "bias_b");
  layer.set("bias", simple ? used(c.at(table)) : at::stack({c.at(a).flatten(), c.at(b).flatten()}));
  const auto mask = mask_of_mega(c);
  auto y = x + layer(x, {.mask = mask});
  if (!pre_norm) y = at::layer_norm(y, {x.size(2)}, gain, shift, 1e-5);
  expect_output(c, y, rows_of(mask));
  if (!probes_only(c, rows_of(mask))) return;
  expect_gradient(c, "x", x.grad());
  layer.expect_gradients(c);
  expect_average(c, layer, "average.");
  const auto slopes = layer.gradient("bias");
  if (simple) {
    auto want = c;
    want.tensors["grad_" + table] = used(c.at("grad_" + table));
    expect_gradient(want, table, slopes);
  } else {
    expect_gradient(c, a, slopes[0].view(c.at(a).sizes()));
    expect_gradient(c, b, slopes[1].view(c.at(b).sizes()));
  }
  if (!pre_norm) {
    expect_gradient(c, named("ln_w", "norm_gain"), gain.grad());
    expect_gradient(c, named("ln_b", "norm_bias"), shift.grad());
  }
}

void check_any_average(const Case& c) {
  c.has("expansion") ? check_other_average(c) : check_average(c);
}

const Reader layer("mega", {check_layer});
const Reader average("mega-ema", {check_any_average});

}  // namespace
}  // namespace longbow::parity

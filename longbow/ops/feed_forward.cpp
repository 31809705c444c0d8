#include "longbow/ops/feed_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <array>

#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Curve;
using Maybe = std::optional<Tensor>;

constexpr size_t kWeights = 6;
constexpr std::array<const char*, kWeights> kNames = {"norm_weight", "norm_bias", "up",
                                                      "up_bias",     "down",      "down_bias"};

std::array<Tensor, kWeights> weights_of(const FeedForwardLayer& layer) {
  return {layer.norm_weight, layer.norm_bias, layer.up, layer.up_bias, layer.down, layer.down_bias};
}

void check(const Tensor& x, const FeedForwardLayer& layer) {
  const int64_t width = x.size(-1), units = layer.up.size(0);
  const std::vector<int64_t> sizes[] = {{width}, {width},        {units, width},
                                        {units}, {width, units}, {width}};
  const auto weights = weights_of(layer);
  for (size_t i = 0; i < kWeights; ++i)
    TORCH_CHECK(weights[i].sizes() == sizes[i], "feed_forward: x is ", x.sizes(), " and ",
                kNames[i], " is ", weights[i].sizes(), ", but needs ", at::IntArrayRef(sizes[i]));
}

Tensor by_formula(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site,
                  double rate, double epsilon, int64_t curve) {
  return feed_forward_formula(x, feed_forward_layer(weights, key, site, rate, epsilon, curve));
}

Tensor on_meta(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site, double rate,
               double epsilon, int64_t curve) {
  check(x, feed_forward_layer(weights, key, site, rate, epsilon, curve));
  return at::empty_like(x, {}, at::MemoryFormat::Contiguous);
}
FeedForwardGradients backward_on_meta(const Tensor&, const Tensor& x, at::TensorList weights,
                                      const Maybe&, int64_t, double, double, int64_t) {
  std::vector<Tensor> all;
  for (const auto& weight : weights) all.push_back(at::empty_like(weight));
  return {at::empty_like(x), all};
}

Maybe key_of(const FeedForwardLayer& layer) {
  return layer.drop.rate > 0 ? Maybe(layer.drop.key) : std::nullopt;
}

Tensor call(const Tensor& x, const FeedForwardLayer& layer) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::feed_forward", "")
                             .typed<decltype(by_formula)>();
  return op.call(x, weights_of(layer), key_of(layer), static_cast<int64_t>(layer.drop.site),
                 layer.drop.rate, layer.epsilon, static_cast<int64_t>(layer.curve));
}
FeedForwardGradients call_backward(const Tensor& dy, const Tensor& x,
                                   const FeedForwardLayer& layer) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::feed_forward_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, x, weights_of(layer), key_of(layer), static_cast<int64_t>(layer.drop.site),
                 layer.drop.rate, layer.epsilon, static_cast<int64_t>(layer.curve));
}

// That of the kernels. Inputs are x, the weights and the key.
struct Gradient : Differentiable {
  explicit Gradient(const FeedForwardLayer& layer)
      : curve(layer.curve),
        epsilon(layer.epsilon),
        rate(layer.drop.rate),
        site(static_cast<int64_t>(layer.drop.site)) {}
  const Curve curve;
  const double epsilon, rate;
  const int64_t site;

  FeedForwardLayer layer(const TensorVector& inputs) const {
    return feed_forward_layer(at::TensorList(inputs).slice(1, kWeights), inputs.back(), site, rate,
                              epsilon, static_cast<int64_t>(curve));
  }
  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], layer(inputs))};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "feed_forward has no second derivative here");
    const auto kept = saved();
    const auto [dx, dweights] = call_backward(gradients[0], kept[0], layer(kept));
    TensorVector all = {dx};
    all.insert(all.end(), dweights.begin(), dweights.end());
    all.emplace_back();
    return all;
  }
};

// The formula is recorded as it is.
Tensor with_gradient(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site,
                     double rate, double epsilon, int64_t curve) {
  const auto layer = feed_forward_layer(weights, key, site, rate, epsilon, curve);
  if (!has_feed_forward_kernel(x, layer)) return feed_forward_formula(x, layer);
  if (!wants_gradient(x, weights[0], weights[1], weights[2], weights[3], weights[4], weights[5])) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call(x, layer);
  }
  TensorVector inputs = {x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.push_back(key.value_or(Tensor()));
  return applied<Gradient>(inputs, layer)[0];
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "feed_forward(Tensor x, Tensor[] weights, Tensor? key, int site, float rate, float epsilon, "
      "int curve) -> Tensor");
  m.def(
      "feed_forward_backward(Tensor dy, Tensor x, Tensor[] weights, Tensor? key, int site, "
      "float rate, float epsilon, int curve) -> (Tensor dx, Tensor[] dweights)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("feed_forward", by_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("feed_forward", on_meta);
  m.impl("feed_forward_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("feed_forward", with_gradient);
}

}  // namespace

Tensor feed_forward(const Tensor& x, const FeedForwardLayer& layer) {
  check(x, layer);
  return call(x, layer);
}

bool has_feed_forward_kernel(const Tensor& x, const FeedForwardLayer& layer) {
  const auto type = x.scalar_type();
  if (!x.is_cuda() || (type != at::kBFloat16 && type != at::kHalf) || x.numel() == 0) return false;
  for (const auto& weight : weights_of(layer))
    if (!weight.defined() || weight.scalar_type() != type || !weight.is_cuda()) return false;
  const int64_t memory = kernels::feed_forward_memory(x.size(-1), layer.up.size(0));
  return memory > 0 && memory <= block_memory(x);
}

}  // namespace longbow

#include "longbow/ops/perceptron.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "longbow/kernels/perceptron.h"
#include "longbow/ops/block_memory.h"
#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Curve;
using Maybe = std::optional<Tensor>;

constexpr size_t kWeights = 4;
constexpr std::array<const char*, kWeights> kNames = {"up", "up_bias", "down", "down_bias"};

std::array<Tensor, kWeights> weights_of(const PerceptronLayer& layer) {
  return {layer.up, layer.up_bias, layer.down, layer.down_bias};
}

void check(const Tensor& x, const PerceptronLayer& layer) {
  TORCH_CHECK(x.dim() > 0 && layer.up.dim() == 2 && layer.down.dim() == 2, "perceptron: x is ",
              x.sizes(), ", up ", layer.up.sizes(), ", down ", layer.down.sizes());
  const int64_t units = layer.up.size(0), out = layer.down.size(0);
  const std::vector<int64_t> sizes[] = {{units, x.size(-1)}, {units}, {out, units}, {out}};
  const auto weights = weights_of(layer);
  for (size_t i = 0; i < kWeights; ++i)
    TORCH_CHECK(weights[i].sizes() == sizes[i], "perceptron: x is ", x.sizes(), " and ", kNames[i],
                " is ", weights[i].sizes(), ", but needs ", at::IntArrayRef(sizes[i]));
}

Tensor by_formula(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site,
                  double rate, int64_t curve) {
  return perceptron_formula(x, perceptron_layer(weights, key, site, rate, curve));
}

Tensor on_meta(const Tensor& x, at::TensorList weights, const Maybe& key, int64_t site, double rate,
               int64_t curve) {
  const auto layer = perceptron_layer(weights, key, site, rate, curve);
  check(x, layer);
  auto sizes = x.sizes().vec();
  sizes.back() = layer.down.size(0);
  return at::empty(sizes, x.options());
}
FeedForwardGradients backward_on_meta(const Tensor&, const Tensor& x, at::TensorList weights,
                                      const Maybe&, int64_t, double, int64_t) {
  std::vector<Tensor> all;
  for (const auto& weight : weights) all.push_back(at::empty_like(weight));
  return {at::empty_like(x), all};
}

Maybe key_of(const PerceptronLayer& layer) {
  return layer.drop.rate > 0 ? Maybe(layer.drop.key) : std::nullopt;
}

Tensor call(const Tensor& x, const PerceptronLayer& layer) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::perceptron", "")
                             .typed<decltype(by_formula)>();
  return op.call(x, weights_of(layer), key_of(layer), static_cast<int64_t>(layer.drop.site),
                 layer.drop.rate, static_cast<int64_t>(layer.curve));
}
FeedForwardGradients call_backward(const Tensor& dy, const Tensor& x,
                                   const PerceptronLayer& layer) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::perceptron_backward", "")
                             .typed<decltype(backward_on_meta)>();
  return op.call(dy, x, weights_of(layer), key_of(layer), static_cast<int64_t>(layer.drop.site),
                 layer.drop.rate, static_cast<int64_t>(layer.curve));
}

// That of the kernels. Inputs are x, the weights and the key.
struct Gradient : Differentiable {
  explicit Gradient(const PerceptronLayer& layer)
      : curve(static_cast<int64_t>(layer.curve)),
        site(static_cast<int64_t>(layer.drop.site)),
        rate(layer.drop.rate) {}
  const int64_t curve, site;
  const double rate;

  PerceptronLayer layer(const TensorVector& inputs) const {
    return perceptron_layer(at::TensorList(inputs).slice(1, kWeights), inputs.back(), site, rate,
                            curve);
  }
  TensorVector forward(const TensorVector& inputs) override {
    const at::AutoDispatchBelowADInplaceOrView below;
    save(inputs);
    return {call(inputs[0], layer(inputs))};
  }
  TensorVector backward(const TensorVector& gradients) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), "perceptron has no second derivative here");
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
                     double rate, int64_t curve) {
  const auto layer = perceptron_layer(weights, key, site, rate, curve);
  if (!has_perceptron_kernel(x, layer)) return perceptron_formula(x, layer);
  if (!wants_gradient(x, weights[0], weights[1], weights[2], weights[3])) {
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
      "perceptron(Tensor x, Tensor[] weights, Tensor? key, int site, float rate, int curve) -> "
      "Tensor");
  m.def(
      "perceptron_backward(Tensor dy, Tensor x, Tensor[] weights, Tensor? key, int site, "
      "float rate, int curve) -> (Tensor dx, Tensor[] dweights)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("perceptron", by_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("perceptron", on_meta);
  m.impl("perceptron_backward", backward_on_meta);
}
TORCH_LIBRARY_IMPL(longbow, Autograd, m) {
  m.impl("perceptron", with_gradient);
}

}  // namespace

Tensor perceptron(const Tensor& x, const PerceptronLayer& layer) {
  check(x, layer);
  return call(x, layer);
}

bool has_perceptron_kernel(const Tensor& x, const PerceptronLayer& layer) {
  if (!x.is_cuda() || x.scalar_type() != at::kFloat || x.numel() == 0) return false;
  for (const auto& weight : weights_of(layer))
    if (weight.scalar_type() != at::kFloat || !weight.is_cuda()) return false;
  const int64_t group = kernels::perceptron_group(layer.up.size(0)), out = layer.down.size(0);
  const int64_t memory = kernels::mixture_memory(group, std::max(x.size(-1), out));
  return (layer.curve == Curve::gelu || layer.curve == Curve::relu) && group > 0 &&
         group % 4 == 0 && x.size(-1) % 4 == 0 && out % 4 == 0 && memory > 0 &&
         memory <= block_memory(x);
}

}  // namespace longbow

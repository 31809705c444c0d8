#include "longbow/nn/features/feature_maps.h"

#include <ATen/ATen.h>

#include "longbow/ops/differentiable.h"

namespace longbow {
namespace {

using at::Tensor;

// The slope is min(y, 1), so that the output is all that is kept.
struct EluPlusOne : Differentiable {
  TensorVector forward(const TensorVector& inputs) override {
    const auto& x = inputs[0];
    const auto y = x.clamp_max(0).exp_().add_(x.relu());
    save({y});
    return {y};
  }
  TensorVector backward(const TensorVector& gradients) override {
    return {gradients[0] * saved()[0].clamp_max(1)};
  }
};

}  // namespace

Tensor elu_plus_one(const Tensor& x) {
  return applied<EluPlusOne>({x})[0];
}

Tensor tanh_plus_one(const Tensor& x) {
  return 2 * (2 * x).sigmoid();
}

Tensor bounded_exp(const Tensor& x) {
  constexpr double kLargest = 35;
  return x.clamp_max(kLargest).exp();
}

}  // namespace longbow

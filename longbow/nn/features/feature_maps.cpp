#include "longbow/nn/features/feature_maps.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace longbow {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

// The slope is min(y, 1), so that the output is all that is kept.
struct EluPlusOne : torch::autograd::Function<EluPlusOne> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    auto y = x.clamp_max(0).exp_().add_(x.relu());
    context->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0].clamp_max(1)};
  }
};

}  // namespace

Tensor elu_plus_one(const Tensor& x) {
  return EluPlusOne::apply(x);
}

Tensor tanh_plus_one(const Tensor& x) {
  return 2 * (2 * x).sigmoid();
}

Tensor bounded_exp(const Tensor& x) {
  constexpr double kLargest = 35;
  return x.clamp_max(kLargest).exp();
}

}  // namespace longbow

#include "longbow/ops/add_bias.h"

#include <ATen/ATen.h>

#include "longbow/ops/differentiable.h"
#include "longbow/ops/gradient.h"
#include "longbow/ops/row_sum.h"

namespace longbow {
namespace {

using at::Tensor;

struct Gradient : Differentiable {
  TensorVector forward(const TensorVector& inputs) override { return {inputs[0] + inputs[1]}; }
  TensorVector backward(const TensorVector& gradients) override {
    const auto& g = gradients[0];
    return {g, wants_gradient_of(1) ? row_sum(g) : Tensor()};
  }
};

}  // namespace

Tensor add_bias(const Tensor& x, const Tensor& bias) {
  TORCH_CHECK(x.dim() >= 1 && bias.dim() == 1 && x.size(-1) == bias.size(0) &&
                  x.scalar_type() == bias.scalar_type(),
              "add_bias: x is ", x.sizes(), " ", x.scalar_type(), " but bias is ", bias.sizes(),
              " ", bias.scalar_type());
  return wants_gradient(x, bias) ? applied<Gradient>({x, bias})[0] : x + bias;
}

}  // namespace longbow

#pragma once
#include "longbow/ops/feed_forward_formula.h"

namespace longbow {

// y = W2 dropout(f(W1 x + b1)) + b2 over the last dimension.
struct PerceptronLayer {
  at::Tensor up, up_bias;      // [F, C], [F]
  at::Tensor down, down_bias;  // [E, F], [E]
  kernels::Curve curve = kernels::Curve::gelu;
  Drop drop = {};
};

// By other operators. The kernel is tested against it.
at::Tensor perceptron_formula(const at::Tensor& x, const PerceptronLayer& layer);

// A layer as the dispatcher takes it: weights in the order of the struct's.
PerceptronLayer perceptron_layer(at::TensorList weights, const std::optional<at::Tensor>& key,
                                 int64_t site, double rate, int64_t curve);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <vector>

#include "longbow/kernels/feed_forward.h"
#include "longbow/ops/dropout.h"

namespace longbow {

// y = x + dropout(W2 f(W1 norm(x) + b1) + b2) over the last dimension; norm is the layer norm.
struct FeedForwardLayer {
  at::Tensor norm_weight, norm_bias;  // [C]
  at::Tensor up, up_bias;             // [F, C], [F]
  at::Tensor down, down_bias;         // [C, F], [C]
  kernels::Curve curve = kernels::Curve::gelu;
  double epsilon = 1e-5;
  Drop drop = {};
};

at::Tensor curved(const at::Tensor& x, kernels::Curve curve);
// By other operators. The kernel is tested against it.
at::Tensor feed_forward_formula(const at::Tensor& x, const FeedForwardLayer& layer);

// A layer as the dispatcher takes it: weights in the order of the struct's.
FeedForwardLayer feed_forward_layer(at::TensorList weights, const std::optional<at::Tensor>& key,
                                    int64_t site, double rate, double epsilon, int64_t curve);
using FeedForwardGradients =
    std::tuple<at::Tensor, std::vector<at::Tensor>>;  // of x, of the weights

}  // namespace longbow

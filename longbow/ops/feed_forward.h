#pragma once
#include <ATen/core/Tensor.h>

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
at::Tensor feed_forward(const at::Tensor& x, const FeedForwardLayer& layer);

// Whether a GPU does it in one pass: in half types, at widths of 64 and 128 and as many units as
// fit on chip. There x is all that is kept for the backward pass, and there is no second
// derivative.
bool has_feed_forward_kernel(const at::Tensor& x, const FeedForwardLayer& layer);

at::Tensor curved(const at::Tensor& x, kernels::Curve curve);
// The same by other operators. The kernel is tested against it.
at::Tensor feed_forward_formula(const at::Tensor& x, const FeedForwardLayer& layer);

}  // namespace longbow

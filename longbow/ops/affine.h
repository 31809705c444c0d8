#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x W^T + b over the last dimension; without a bias where it is undefined. On a GPU the gradient of
// the bias, a sum over all rows, has a kernel of its own; everything else is LibTorch's.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace longbow

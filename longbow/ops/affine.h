#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x W^T + b over the last dimension; without a bias where it is undefined. x [..., C], W [O, C], b
// [O]. The products are LibTorch's, or on a CPU rows_product's where it has kernels; the gradient
// of the bias is row_sum, which has a kernel of its own on a GPU.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace longbow

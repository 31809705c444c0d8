#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x W^T + b over the last dimension; without a bias where it is undefined. x [..., C], W [O, C], b
// [O]. The products are LibTorch's, or those of ops/rows_product.h where it has kernels for a CPU;
// the gradient of the bias is row_sum, which has a kernel of its own on a GPU, or comes with the
// latter.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace longbow

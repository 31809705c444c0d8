#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace longbow {

// x W^T + b over the last dimension; without a bias where it is undefined. x [..., C], W [O, C], b
// [O]. The products are LibTorch's, or those of ops/rows_product.h where it has kernels for a CPU;
// the gradient of the bias is row_sum, which has a kernel of its own on a GPU, or comes with the
// latter.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The same where y is known: only its gradient is computed, that of y is none.
at::Tensor affine_again(const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias);

// Its columns in parts, first those of widths[0], and so on: views. Gradients of parts that lie
// beside each other in memory are read as one matrix. Others are read where they lie, one product
// for each, by the kernels for a CPU and, where they are wide, on a GPU; elsewhere they are put
// beside each other.
std::vector<at::Tensor> affine_parts(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, at::IntArrayRef widths);

}  // namespace longbow

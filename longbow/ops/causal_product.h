#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// out_t = sum over i <= t of (x_t . y_i) z_i; with `reversed`, over i >= t. x, y [..., N, p], z
// [..., N, q]. float32 and float64 as they are; half types are accumulated in float32. Twice
// differentiable.
at::Tensor causal_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                          bool reversed = false);

// The same by ATen alone: the definition in chunks, on any device. The kernel is tested against it.
at::Tensor causal_product_formula(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                                  bool reversed = false);

// The same after the tokens whose sums of y_j z_j^T are given; they become those after the last
// one. Of a single token, as in decoding, the sums are written and read once.
at::Tensor grown_causal_product(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z,
                                at::Tensor& sums);

}  // namespace longbow

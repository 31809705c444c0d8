#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// A filter of an odd length over the tokens, one for each head: out_n = sum_t f_t x_{n + t - P}
// with P = (taps - 1) / 2 and zeros beyond the ends. x [B, H, N, D], filter [H, taps]; sums are
// float32 at least. There are kernels for a CPU, and for half types on a GPU with up to 33 taps and
// 64 channels.
at::Tensor head_filter(const at::Tensor& x, const at::Tensor& filter);

// The same by ATen alone, and the gradients of x and filter.
at::Tensor head_filter_formula(const at::Tensor& x, const at::Tensor& filter);
struct FilterGradients {
  at::Tensor x, filter;
};
FilterGradients head_filter_formula_backward(const at::Tensor& dout, const at::Tensor& x,
                                             const at::Tensor& filter);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// A convolution over all tokens, channel by channel:
//   y_t = skip u_t + sum_{l >= 0} past_l u_{t - l} + sum_{l >= 1} ahead_{l - 1} u_{t + l},
// where u [B, N, C] is zero outside of the sequence; past [N, C], ahead [N, C] or undefined, skip
// [C]. The result has the type of u. A token that a kernel does not read has no influence, as long
// as it is finite.
at::Tensor long_convolution(const at::Tensor& u, const at::Tensor& past, const at::Tensor& ahead,
                            const at::Tensor& skip);

// Whether a GPU has kernels for it; otherwise it runs the formula. They multiply all pairs of
// tokens, in bfloat16, which for up to 16,384 of them moves and computes less than transforms in
// float64. Kernels have no second derivative.
bool has_long_kernel(const at::Tensor& u);

// The same by ATen alone, by transforms in float64. The kernels are tested against it.
at::Tensor long_convolution_formula(const at::Tensor& u, const at::Tensor& past,
                                    const at::Tensor& ahead, const at::Tensor& skip);

}  // namespace longbow

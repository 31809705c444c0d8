#pragma once
#include <ATen/core/Tensor.h>

#include "longbow/kernels/mode_convolution.h"
#include "longbow/ops/fft_convolution.h"

namespace longbow {

using kernels::ModeActivation;

// A convolution over all tokens whose kernels are sums of n complex modes, channel by channel:
//   y_t = f(skip u_t + sum_{l >= 0} K_l u_{t - l} + sum_{l >= g} K'_{l - g} u_{t + l}),
//   K_l = Re sum_n weight_n e^{l rate_n}, Re rate_n <= 0,
// with g the first lag and f the activation. u [B, N, C]; rate and weight [D, C, n, 2], real parts
// beside imaginary ones, of K and, if D = 2, of K'; skip [C]. In float32 at least, rounded to the
// type of u. A token that a kernel does not read has no influence, as long as it is finite.
at::Tensor mode_convolution(const at::Tensor& u, const at::Tensor& rate, const at::Tensor& weight,
                            const at::Tensor& skip, FirstLag first, ModeActivation activation);

// Whether a GPU has kernels for it, which take time in proportion to N; otherwise it runs the
// formula. Kernels have no second derivative.
bool has_mode_kernel(const at::Tensor& u);

// The same by ATen alone, with kernels as long as the sequence. The kernels are tested against it.
at::Tensor mode_convolution_formula(const at::Tensor& u, const at::Tensor& rate,
                                    const at::Tensor& weight, const at::Tensor& skip,
                                    FirstLag first, ModeActivation activation);
at::Tensor activated(const at::Tensor& y, ModeActivation activation);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Positive random features relative to the largest: with y = scale x,
//   phi_r = exp(omega_r . y - |y|^2 / 2 - peak),
// where peak is the largest exponent of each token, or of all tokens of a head that are kept (-1e30
// where there is none), and a constant to the gradient. x [B, H, N, E], omega [1 or H, R, E], or,
// mirrored, half as many rows, whose negatives follow them; without a gradient; keep [B, N] bool or
// undefined: features of other tokens are 0. By kernels: on a CPU, in float32 or float64; no second
// derivative. On a GPU of x in bfloat16 or float32, in float32, for Peak::token and without a
// gradient.
enum class Peak { token, head };
struct ExponentialFeatures {
  at::Tensor phi, peak;  // [B, H, N, R], [B, H, N or 1, 1]
};
ExponentialFeatures exponential_features(const at::Tensor& x, const at::Tensor& omega, double scale,
                                         const at::Tensor& keep, Peak peak, bool mirrored = false);
bool has_exponential_kernel(const at::Tensor& x, Peak peak);

}  // namespace longbow

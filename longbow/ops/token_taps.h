#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// A sum over neighbours with weights that each token has of its own: out_t = sum_j a_tj
// z_{t + j - left}, where z is zero outside of the sequence. z [B, N, L], taps a [B, H, N, K];
// channel c belongs to head c div (L / H). The result has the type of the taps.
at::Tensor token_taps(const at::Tensor& z, const at::Tensor& taps, int64_t left);

// The same by ATen alone, and the gradients of z and taps.
at::Tensor token_taps_formula(const at::Tensor& z, const at::Tensor& taps, int64_t left);
struct TapGradients {
  at::Tensor z, taps;
};
TapGradients token_taps_formula_backward(const at::Tensor& dout, const at::Tensor& z,
                                         const at::Tensor& taps, int64_t left);

// Whether kernels do it without copies of the neighbours: on a GPU, for taps in float32 and heads
// of a power of two from 8 to 256 channels.
bool has_token_taps_kernel(const at::Tensor& z, const at::Tensor& taps);

}  // namespace longbow

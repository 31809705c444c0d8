#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// y_t = silu(b + sum_j a_j z_{t + j - (K - 1)}), channel by channel: z [B, N, C], zero before the
// first token, taps [C, K], bias [C]. Reversed, over a token and those after it:
// z_{t - j + (K - 1)}. In float32 at least, rounded once to the type of z.
// The first `channels` of y may stand in parts of `width` that are made of length 1: u / sqrt(u . u
// + 1e-6).
struct UnitParts {
  int64_t channels = 0, width = 1;
};
at::Tensor silu_taps(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                     bool reversed, const UnitParts& unit = {});

// Both directions of the same z.
struct BothTaps {
  at::Tensor forth, back;
};
BothTaps silu_taps_both(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                        const UnitParts& unit = {});

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_taps_kernel(const at::Tensor& z, const at::Tensor& taps, const UnitParts& unit = {});

// The same by ATen alone. The kernel is tested against it.
at::Tensor silu_taps_formula(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                             bool reversed, const UnitParts& unit = {});

}  // namespace longbow

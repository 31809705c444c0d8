#pragma once
// Attention by random features of which the pairs within a window have their exact weights.
#include <ATen/core/Tensor.h>

#include "longbow/ops/random_window_formula.h"

namespace longbow {

// out_i = sum_j M_ij v_j / sum_j M_ij over the keys that are kept and seen, with M_ij = exp(scale^2
// q_i . k_j) in the window and w_ij elsewhere. q, k [B, H, N, E], v [B, H, N, D] -> [B, H, N, D];
// sums are float32 at least. A query that sees nothing reads zero. Differentiable in q, k and v,
// once.
at::Tensor random_window(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const RandomWindow& how);

// Whether kernels do it in linear time: on a GPU in bfloat16, for heads of up to 64 channels, up to
// 384 features and windows of up to 32 tokens on either side, where a block has 103 KiB of memory.
// Elsewhere it has no advantage.
bool has_random_window_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const RandomWindow& how);

}  // namespace longbow

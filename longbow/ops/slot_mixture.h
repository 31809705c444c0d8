#pragma once
#include "longbow/ops/dropout.h"

namespace longbow {

// Softmax attention over few slots for many tokens, the heads added up:
//   y_i = sum_h sum_r m_ihr w_ihr v_hr,   w_ih = softmax_r(x_i . k_hr + b_hr).
// x [B, L, N, C], keys [B, L, H, R, C], values [B, L, H, R, E], bias [B, L, H, R] or undefined ->
// [B, L, N, E]. A bias of -infinity hides a slot; a token that sees none reads zero. m is 0 for
// weights that are dropped, as numbers of a draw [B, L, N, H R], and 1 otherwise: the others are
// not divided by 1 - rate. No weights are kept for the backward pass, which forms them again.
at::Tensor slot_mixture(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& bias = {}, const Drop& drop = {});

// The same by ATen alone, with its H x N x R weights. The kernel is tested against it.
at::Tensor slot_mixture_formula(const at::Tensor& x, const at::Tensor& keys,
                                const at::Tensor& values, const at::Tensor& bias = {},
                                const Drop& drop = {});

// Whether kernels do it that write no weights to memory: on a GPU in float32, for rows of up to 64
// numbers and 256 slots, or 128 and 128, where all are multiples of 4 (slots only for dropout).
// Products are three of TF32, as exact as those of float32. Elsewhere it has no advantage.
bool has_mixture_kernel(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
                        bool drops);

}  // namespace longbow

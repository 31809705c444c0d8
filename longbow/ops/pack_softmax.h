#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Softmax attention of few queries: out_r = sum_j w_rj v_j with w_r = softmax over the kept j of
// q_r . k_j. q [B, H, R, E], k [B, H, M, E], v [B, H, M, D] -> [B, H, R, D]; q is scaled already.
// keep [B, M] bool or undefined; a query of a sequence without keys reads zero. Only the arguments,
// the results and the logarithms of the sums are kept for the backward pass. By ATen it is
// slot_softmax_formula.
at::Tensor pack_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& keep = {});

// Whether kernels do it that write no weights to memory: on a GPU in a half type, for up to 64
// queries and heads of up to 64 channels. Elsewhere it has no advantage.
bool has_pack_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace longbow

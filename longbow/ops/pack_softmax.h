#pragma once
#include "longbow/ops/join_softmax.h"

namespace longbow {

// Softmax attention of few queries: out_r = sum_j w_rj v_j with w_r = softmax over the kept j of
// q_r . k_j. q [B, H, R, E], k [B, H, M, E], v [B, H, M, D] -> [B, H, R, D]; q is scaled already.
// keep [B, M] bool or undefined; a query of a sequence without keys reads zero. Only the arguments,
// the results and the logarithms of the sums are kept for the backward pass.
at::Tensor pack_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& keep = {});
// With the logarithms of the sums [B, H, R, 1], in float32 at least.
SoftmaxPart pack_softmax_part(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& keep = {});

// The same in ATen alone, and the gradients of q, k and v.
SoftmaxPart pack_softmax_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& keep);
struct PackGradients {
  at::Tensor q, k, v;
};
PackGradients pack_softmax_formula_backward(const SoftmaxPart& gradient, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const at::Tensor& keep);

// Whether kernels do it that write no weights to memory: on a GPU in a half type, for up to 64
// queries, or 128 of eight times as many keys, and heads of up to 64 channels. Elsewhere it has no
// advantage.
bool has_pack_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace longbow

#pragma once
// Attention by random features to the tokens that are some way behind, so that parts over nearer
// keys can be added.
#include "longbow/ops/join_softmax.h"
#include "longbow/ops/random_product_formula.h"

namespace longbow {

// With w_ij the mean over r of phi_r(q_i) phi_r(k_j), of the exponential map with nothing left out:
// out_i = sum_j w_ij v_j / sum_j w_ij, log_sum_i = log sum_j w_ij over the kept keys j <= i -
// behind. q, k [B, H, N, E], v [B, H, N, D] -> [B, H, N, D], [B, H, N, 1] in float32 at least.
// Differentiable in q, k and v, once. Kernels do it where has_random_kernel says so of the causal
// product.
SoftmaxPart random_past(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const RandomProduct& how, int64_t behind);

// The same in ATen alone, and the gradients of q, k and v.
SoftmaxPart random_past_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const RandomProduct& how, int64_t behind);
std::array<at::Tensor, 3> random_past_gradient(const SoftmaxPart& gradient, const at::Tensor& q,
                                               const at::Tensor& k, const at::Tensor& v,
                                               const RandomProduct& how, int64_t behind);

// Queries from `behind` on, and keys and values that some query reads.
struct PastRows {
  at::Tensor q, k, v;
  RandomProduct how;  // causal, of these
  PastRows(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
           const RandomProduct& given, int64_t behind);
};

}  // namespace longbow

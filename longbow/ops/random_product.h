#pragma once
// Attention by random features, from the queries and keys themselves.
#include <ATen/core/Tensor.h>

#include "longbow/ops/random_product_formula.h"

namespace longbow {

// out_i = sum_j w_ij v_j / max(sum_j w_ij, least) over the kept keys with w_ij = phi(q_i) .
// phi(k_j). q [B, H, N, E], k [B, H, M, E], v [B, H, M, D] -> [B, H, N, D]; sums are float32 at
// least. Differentiable in q, k, v and sigma, twice.
at::Tensor random_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const RandomProduct& how);

// Whether kernels do it that write no features to memory: on a CPU, where it is not causal and the
// map exponential; on a GPU, in bfloat16, for heads of up to 64 channels and so many projections
// that they stay on chip: 384, or 192 of the trigonometric map and 64 if that is causal. Elsewhere
// it has no advantage.
bool has_random_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, RandomMap map,
                       int64_t projections, bool causal);

}  // namespace longbow

#pragma once
// Attention by features in place of exponentials, from the queries and keys themselves.
#include <ATen/core/Tensor.h>

#include "longbow/ops/feature_product_formula.h"

namespace longbow {

// out_i = sum_j w_ij v_j / d_i over the kept keys with w_ij = phi(q_i) . phi(k_j) and
// d_i = max(sum_j w_ij + added, least), or 1 where not normalised. q [B, H, N, E], k [B, H, M, E],
// v [B, H, M, D] -> [B, H, N, D]; sums are float32 at least. Twice differentiable.
at::Tensor feature_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const FeatureProduct& how);

// The sums alone, which are not divided: of w_ij v_j, and of w_ij, [B, H, N] in float32 at least.
struct WeightedSums {
  at::Tensor values, weights;
};
WeightedSums feature_product_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  FeatureProduct how);

// Whether kernels do it that write no features to memory: on a CPU, where it is not causal; on a
// GPU, in bfloat16, for heads of up to 128 channels, or for up to 256 features that are given (128
// if causal) and 64 channels of values. Elsewhere it has no advantage.
bool has_feature_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const FeatureProduct& how);

}  // namespace longbow

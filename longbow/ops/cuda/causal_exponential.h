#pragma once
// Attention by random features of the exponential map under a causal mask, by kernels.
#include "longbow/ops/cuda/random_sides.h"
#include "longbow/ops/head_rows.h"

namespace longbow {

// Queries, keys and values are readable by head. Writes `out`, and the logarithms of the mean over
// features of the sums of weights to log_sum [B, H, N] unless it is null; returns what the backward
// pass needs.
at::Tensor causal_exponential(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const RandomSides& sides, const at::Tensor& out, float* log_sum);
// Writes the gradients; dlog_sum is null where log_sum was.
void causal_exponential_backward(const at::Tensor& g, const float* dlog_sum, const at::Tensor& q,
                                 const at::Tensor& k, const at::Tensor& v, const RandomSides& sides,
                                 const at::Tensor& kept, const BesideRows& gradients);

}  // namespace longbow

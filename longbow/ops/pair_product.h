#pragma once
// Attention over all pairs whose weights are no plain softmax; kernels form them tile by tile.
#include <ATen/core/Tensor.h>

namespace longbow {

// Which keys of [B, H, M, E] a query of [B, H, N, E] sees, and the factor of its scores.
struct PairSight {
  bool causal = false;   // key j when j <= i + (M - N)
  at::Tensor keep = {};  // [B, M] bool, true = a real key; undefined = all
  double scale = 1;      // above 0
};

// sum_j max(s_ij, 0) v_j over the keys that are seen, with s = scale q k^T. v [B, H, M, D] -> [B,
// H, N, D] in float32 at least. Only the arguments are kept for the backward pass.
at::Tensor relu_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const PairSight& sight);

// Of the keys that are seen, the `budget` [1 or B, N] int32 with the largest scores of each query;
// among equal ones the first, or with `ties` all that equal the last one. The result is [3, B, H,
// N] in float32 at least: the scores q k^T above floor are in, and those equal to floor up to key
// last; and the largest score. Where fewer keys are seen, floor is -infinity. It is a constant to
// the gradient, and the factor of the scores does not matter.
at::Tensor top_keys(const at::Tensor& q, const at::Tensor& k, const PairSight& sight,
                    const at::Tensor& budget, bool ties);

// sum_j w_ij v_j with w_i the softmax of s over the top keys; [B, H, N, D] in float32 at least. A
// query that sees nothing reads zero.
at::Tensor top_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const PairSight& sight, const at::Tensor& top);

// Whether kernels do all this that write no scores to memory: on a GPU in a half type, for heads of
// up to 64 channels. Elsewhere, by ATen, N x M scores are formed.
bool has_pair_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

}  // namespace longbow

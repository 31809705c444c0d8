#pragma once
#include "longbow/ops/block_rule.h"

namespace longbow {

// out_i = sum_j (q_i . k_j) v_j over the listed keys that i sees: block_softmax with the scores
// themselves for weights. q [B, H, N, E], k [B, H, M, E], v [B, H, M, D] -> [B, H, N, D]. By
// kernels on a CPU alone; no second derivative.
at::Tensor block_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const BlockPairs& pairs, const Visibility& visibility);

}  // namespace longbow

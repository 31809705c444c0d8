#pragma once
// Softmax attention over listed pairs of blocks: a block of queries reads a few blocks of keys.
#include <ATen/core/Tensor.h>

#include "longbow/ops/block_rule.h"

namespace longbow {

// sum_j w_ij v_j with w_i = softmax over the visible j of scale q_i . k_j + bias, and log sum_j
// e^{...}, so that parts over other keys can be added. A query that sees nothing reads zero; its
// logarithm is -infinity. The scale is above 0.
struct BlockSoftmax {
  at::Tensor out, log_sum;  // [B, H, N, D], [B, H, N] in float32 at least
};
// q [B, H, N, E], k [B, H, M, E], v [B, H, M, D]. `bias` [1 or B, 1 or H, U,
// query_block, S key_block] or undefined; with distances it is [1 or B, 1 or H, N, count], no block
// may be listed twice for a query, and between low and high no two keys that a query reads may be
// equally far away. Only the arguments and the results are kept for the backward pass, which forms
// the weights again.
BlockSoftmax block_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const BlockPairs& pairs, const Visibility& visibility = {},
                           const at::Tensor& bias = {}, const DroppedWeights& dropped = {},
                           const Distances& distances = {}, double scale = 1);

}  // namespace longbow

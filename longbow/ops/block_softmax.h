#pragma once
// Softmax attention over listed pairs of blocks: a block of queries reads a few blocks of keys.
#include <ATen/core/Tensor.h>

#include <limits>

namespace longbow {

// Queries are cut into blocks of `query_block` tokens, keys into blocks of `key_block`; the last of
// each may be partly empty. Block u of the queries reads the key blocks columns[..., u, :], where
// -1 stands for none. A block that is listed twice counts twice.
struct BlockPairs {
  int64_t query_block, key_block;
  at::Tensor columns;  // [1 or B, 1 or H, U, S] int64
};

// Which keys of a listed block a query reads, by the positions of both.
struct Visibility {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  int64_t back = kAll, ahead = kAll;  // -ahead <= i - j <= back
  bool self = true;                   // false hides j = i
  at::Tensor keep = {};               // [1 or B, 1 or H, M] bool, true = a real key
  // [1 or B, 1 or H, N] and [.., M] int64; undefined: 0, 1, …
  at::Tensor query_positions = {}, key_positions = {};
  // Of the same shapes: a query reads keys of its own group only; undefined: all are of one.
  at::Tensor query_groups = {}, key_groups = {};
};

// Weights that are dropped, as philox_dropout drops the elements of [B, H, U, query_block, S
// key_block].
struct DroppedWeights {
  at::Tensor key = {};
  uint64_t site = 0;
  double rate = 0;
};

// sum_j w_ij v_j with w_i = softmax over the visible j of q_i . k_j + bias, and log sum_j e^{...},
// so that parts over other keys can be added. A query that sees nothing reads zero; its logarithm
// is -infinity.
struct BlockSoftmax {
  at::Tensor out, log_sum;  // [B, H, N, D], [B, H, N] in float32 at least
};
// q [B, H, N, E], k [B, H, M, E], v [B, H, M, D]; q is scaled already. `bias` [1 or B, 1 or H, U,
// query_block, S key_block] or undefined. Only the arguments and the results are kept for the
// backward pass, which forms the weights again.
BlockSoftmax block_softmax(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const BlockPairs& pairs, const Visibility& visibility = {},
                           const at::Tensor& bias = {}, const DroppedWeights& dropped = {});

}  // namespace longbow

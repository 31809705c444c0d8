#pragma once
// Which keys a query reads in block_softmax, and with which weights.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>

namespace longbow {

// Queries are cut into blocks of `query_block` tokens, keys into blocks of `key_block`; the last of
// each may be partly empty. Block u of the queries reads the key blocks columns[..., u, :], where
// -1 stands for none. A block that is listed twice counts twice.
struct BlockPairs {
  int64_t query_block, key_block;
  at::Tensor columns;   // [1 or B, 1 or H, U, S] int64
  int64_t readers = 0;  // no block of keys is listed by more blocks of queries; 0 = unknown
};

// All queries, which are one block, read all keys, which are another.
BlockPairs one_block(int64_t queries, int64_t keys, at::Device device = at::kCPU);

// Which keys of a listed block a query reads, by the positions of both.
struct Visibility {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  int64_t back = kAll, ahead = kAll;  // -ahead <= i - j <= back
  int64_t first = 0;                  // keys at positions before it are never too far back
  int64_t apart = 0;                  // |i - j| >= apart: 1 hides a token from itself
  at::Tensor keep = {};               // [1 or B, 1 or H, M] bool, true = a real key
  // [1 or B, 1 or H, N] and [.., M] int64, at most 2^30 large; undefined: 0, 1, …
  at::Tensor query_positions = {}, key_positions = {};
  // Of the same shapes: a query reads keys of its own group only; undefined: all are of one.
  at::Tensor query_groups = {}, key_groups = {};
  at::Tensor key_bias = {};  // [1 or B, 1 or H, M] float: added to scores, without a gradient
  bool hides_nothing() const {
    return back == kAll && ahead == kAll && apart == 0 && !keep.defined() &&
           !query_groups.defined();
  }
};

// Weights that are dropped, as philox_dropout drops the elements of [B, H, U, query_block, S
// key_block].
struct DroppedWeights {
  at::Tensor key = {};
  uint64_t site = 0;
  double rate = 0;
};

// A bias that knows a pair by how far the key is behind the query, by the positions of both: row i
// has a number for each of low, …, high, and that of clamp(j - i, low, high) is added to the score.
struct Distances {
  int64_t low = 0, high = -1;  // none
  int64_t count() const { return high - low + 1; }
};

struct BlockRule {
  BlockPairs pairs;
  Visibility visibility;
  DroppedWeights dropped;
  Distances distances = {};
  double scale = 1;  // of q . k
};

}  // namespace longbow

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

// The past of a Transformer-XL or Compressive Transformer. With
//   b_i = i - tokens + 1   or   (i div segment) segment - tokens,   c_i = max(b_i div rate, 0),
// query i reads the keys c_i rate <= j <= i and the slots c_i - slots <= g < c_i. Slot g is the key
// first_slot + g; it stands for the group [g rate, (g + 1) rate), and slots stand right before the
// oldest key that is read, at c_i rate - (c_i - g).
struct RememberedKeys {
  int64_t tokens = 0;   // 0 = there is no such rule
  int64_t segment = 0;  // 0 = there are none
  int64_t rate = 1, slots = 0, first_slot = std::numeric_limits<int64_t>::max();

  // c_i.
  int64_t left(int64_t i) const {
    const int64_t begin = segment > 0 ? i / segment * segment - tokens : i - tokens + 1;
    return begin < 0 ? 0 : begin / rate;
  }
  // Of the oldest key or slot that a query may read.
  int64_t farthest() const { return tokens - 1 + segment + rate - 1 + slots; }
};

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
  at::Tensor key_bias = {};    // [1 or B, 1 or H, M] float: added to scores, without a gradient
  RememberedKeys memory = {};  // instead of limits, positions and groups
  bool hides_nothing() const {
    return back == kAll && ahead == kAll && apart == 0 && !keep.defined() &&
           !query_groups.defined() && memory.tokens == 0;
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
// That kernels may read by address what the rule lists for these queries [B, H, N, E] and keys [B,
// H, M, E]: sizes and types, no number of a tensor. `who` is named in errors.
void check_block_rule(const char* who, const at::Tensor& q, const at::Tensor& k,
                      const BlockRule& rule);
// That x is [1 or B, 1 or H, ...].
void check_shared(const char* who, const char* name, const at::Tensor& x, const at::Tensor& q);

}  // namespace longbow

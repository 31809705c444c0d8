#pragma once
// Attention of one head over listed blocks of keys, on a CPU; ops/block_softmax.h defines it.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// What a query gives to a key: a share of 1, max(score, 0), or the score as it is.
enum class TileWeights { softmax, relu, score };

// In T, of rows that are T too or, where there are half products (cpu/half_product.h), Bfloat16.
template <class T, class Row = T>
struct TileAttention {
  TileWeights weights;
  int64_t queries, keys;                           // N, M
  int64_t width, value_width;                      // E, D
  int64_t query_block, key_block;                  // tokens
  int64_t listed;                                  // S blocks of keys for each block of queries
  T scale;                                         // of scores
  Rows<const Row> q, k, v;                         // [N, E], [M, E], [M, D]
  const int64_t* columns;                          // [U, S]; negative: none
  int64_t back, ahead, first, apart;               // which keys a query sees, by position
  const bool* keep;                                // [M], or null, as all that follow
  const int64_t *query_positions, *key_positions;  // [N], [M]
  const int64_t *query_groups, *key_groups;        // [N], [M]
  const T* key_bias;                               // [M]
  const T* bias;       // [U, query_block, S key_block], or [N, high - low + 1] where low <= high
  int64_t low, high;   // distances key - query with a bias of their own
  const int64_t* key;  // [2]: weights are dropped
  uint64_t site;
  double rate;
  int64_t first_weight;  // number of this head's first weight among those of all heads
  Rows<T> out;           // [N, D]
  T* log_sum;            // [N], or null where there is no softmax
};

// dq is written, dk, dv and dbias are added to; where `fresh`, dk and dv are written too: there is
// one tile of queries, which sees all keys.
template <class T, class Row = T>
struct TileAttentionBackward {
  TileAttention<T, Row> past;
  Rows<const Row> dout;
  const T* dlog_sum;  // [N], or null
  Rows<T> dq, dk, dv;
  bool fresh;
  T* dbias;  // as bias, or null
};

// Queries are worked off in tiles; each call takes those from `first` to `last` - 1.
int64_t query_tiles(int64_t queries, int64_t query_block) noexcept;
template <class T, class Row>
void tile_attention(const TileAttention<T, Row>& task, int64_t first, int64_t last) noexcept;
template <class T, class Row>
void tile_attention_backward(const TileAttentionBackward<T, Row>& task, int64_t first,
                             int64_t last) noexcept;

}  // namespace longbow::kernels

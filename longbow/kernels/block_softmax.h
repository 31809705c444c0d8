#pragma once
// Softmax attention over listed pairs of blocks on tensor cores; ops/block_softmax.h defines it.
// Numbers are bfloat16 or float16, scores and sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// Something [1 or B, 1 or H, ...] without gaps in what follows; a stride of 0 where it is the same
// for all, null where there is none.
template <class T>
struct PerHead {
  const T* data;
  int64_t batch, head;
};

// Tokens in several orders at once: heads of a task are the orders of one head after the other, its
// queries and keys are places in an order, and place p holds token at[p] of the rows of that head,
// or nobody. Positions are then tokens, and groups are those of places.
struct PlacesOfTokens {
  PerHead<int64_t> at;  // [places]; null: a place is a token
  int64_t orders, tokens;
};

// Which keys and slots a query reads by how many tokens it remembers; ops/block_rule.h defines it.
struct RememberedKeys {
  int64_t tokens, segment, rate, slots, first_slot;  // tokens 0: there is no such rule
};

// Bytes of memory that the kernels need for a block of threads, of rows up to `width`.
constexpr int64_t block_softmax_memory(int64_t width) noexcept {
  return (width <= 64 ? 80 : 110) << 10;
}

struct BlockSoftmax {
  Element type;
  int64_t batch, heads, queries, keys;  // B, H, N, M
  int64_t width, value_width;           // E, D: multiples of 8 up to 128
  int64_t query_block, key_block;
  int64_t blocks, listed;  // U blocks of queries, each with S blocks of keys
  float scale;             // of q . k, above 0
  HeadRows q, k, v;
  PerHead<int64_t> columns;  // [U, S]
  int64_t back, ahead;
  int64_t first, apart;
  PerHead<bool> keep;                               // [M]
  PerHead<int64_t> query_positions, key_positions;  // [N], [M]
  PerHead<int64_t> query_groups, key_groups;        // [N], [M]
  PerHead<float> key_bias;                          // [M]
  RememberedKeys memory;                            // only with distances
  PerHead<float> bias;                              // [U, query_block, S key_block]
  // Where low <= high, bias is [N, high - low + 1], by distance; or it is this, in the type of q,
  // where nothing else is added or dropped.
  int64_t low, high;
  PerHead<uint16_t> rounded_bias;
  int64_t bias_line;  // by distance: from the numbers of a query to those of the next
  // Whether a query reads keys at consecutive positions only, and has a number for each, with a
  // rounded bias; tiles of keys are tokens or slots.
  bool windows;
  const int64_t* key;  // [2], or null: nothing is dropped
  uint64_t site;
  double rate;
  PlacesOfTokens places;
  HeadResults out;  // by place
  float* log_sum;   // [B, H, N], by place
};

// With orders, log_sum and what comes with `out` is of tokens, each over all orders.
struct BlockSoftmaxBackward {
  BlockSoftmax past;
  HeadRows out, dout;
  const float* dlog_sum;            // [B, H, N]
  float* delta;                     // [B, H, N], by place: room for sum_d dout out - dlog_sum
  HeadResults dq, dk, dv;           // by place
  void* dbias;                      // [B, H] and as bias, zeros; or null
  int64_t dbias_batch, dbias_head;  // its strides
  // Which (block of queries) S + (place in its list) name a block of keys: those of block c are
  // order[first[c]] ... order[first[c + 1] - 1], always in the same order.
  PerHead<int64_t> order, first;  // [U S], [blocks of keys + 1]
  int64_t readers;                // no block of keys has more of them; 0 = unknown
  // Lists may be cut into parts: their sums are then added outside. [parts, B, H, M, E], [.., D].
  int64_t parts;
  float *dk_parts, *dv_parts;  // null where parts is 1
};

// Into how many parts the lists of blocks of queries are best cut.
int64_t block_softmax_parts(const BlockSoftmax& task) noexcept;

void block_softmax_cuda(const BlockSoftmax& task, void* stream) noexcept;
void block_softmax_backward_cuda(const BlockSoftmaxBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

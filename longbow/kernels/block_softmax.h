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

struct BlockSoftmax {
  Element type;
  int64_t batch, heads, queries, keys;  // B, H, N, M
  int64_t width, value_width;           // E, D: multiples of 8 up to 128
  int64_t query_block, key_block;
  int64_t blocks, listed;  // U blocks of queries, each with S blocks of keys
  // Of scores: a power of two, by which numbers are multiplied without rounding, times a factor of
  // the scores themselves.
  float scale, factor;
  HeadRows q, k, v;
  PerHead<int64_t> columns;  // [U, S]
  int64_t back, ahead;
  int64_t first, apart;
  PerHead<bool> keep;                               // [M]
  PerHead<int64_t> query_positions, key_positions;  // [N], [M]
  PerHead<int64_t> query_groups, key_groups;        // [N], [M]
  PerHead<float> key_bias;                          // [M]
  PerHead<float> bias;                              // [U, query_block, S key_block]
  int64_t low, high;   // where low <= high, bias is [N, high - low + 1], by distance
  const int64_t* key;  // [2], or null: nothing is dropped
  uint64_t site;
  double rate;
  HeadResults out;
  float* log_sum;  // [B, H, N]
};

struct BlockSoftmaxBackward {
  BlockSoftmax past;
  HeadRows dout;
  const float* dlog_sum;  // [B, H, N]
  float* delta;           // [B, H, N]: room for sum_d dout out - dlog_sum
  HeadResults dq, dk, dv;
  float* dbias;  // [B, H] and as bias, zeros; or null
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

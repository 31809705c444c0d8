#pragma once
// Softmax attention of few queries on tensor cores; ops/pack_softmax.h defines it. Numbers are
// bfloat16 or float16, scores and sums float32. Heads have as many channels as slot_softmax.h
// takes.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostPackQueries = 128;

struct PackSoftmax {
  Element type;
  int64_t batch, heads, slots, keys;  // B, H, R queries, M
  int64_t width, value_width;         // E, D: multiples of 8
  HeadRows q, k, v;
  const bool* keep;  // [B, M], or null: all are real
  int64_t span;      // keys of a thread block, as in head_span.h
  int64_t parts;     // of the keys, each read by itself
  float* means;      // [parts, B, H, R, D]
  float* log_sums;   // [parts, B, H, R]
  float* mean;       // [B, H, R, D]: the result
  float* log_sum;    // [B, H, R], -infinity where nothing is visible
};

struct PackSoftmaxBackward {
  PackSoftmax past;  // without its parts
  HeadRows dout;
  const float* delta;  // [B, H, R]: sum_d dout mean
  float* dq;           // [spans, B, H, R, E], to be added up
  HeadResults dk, dv;
};

// Into how many parts the kernel cuts the keys, for this many slots and spans.
constexpr int64_t pack_softmax_parts(int64_t slots, int64_t spans) {
  return spans * (slots <= 16 ? 4 : slots <= 32 ? 2 : 1);
}

void pack_softmax_cuda(const PackSoftmax& task, void* stream) noexcept;
void pack_softmax_backward_cuda(const PackSoftmaxBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

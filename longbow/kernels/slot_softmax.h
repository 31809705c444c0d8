#pragma once
// Softmax attention over few keys on tensor cores; ops/slot_softmax.h defines it. Numbers are
// bfloat16 or float16, scores and sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostSlots = 64, kMostSlotWidth = 64;

struct SlotSoftmax {
  Element type;
  int64_t batch, heads, queries, slots;  // B, H, N, R
  int64_t width, value_width;            // E, D: multiples of 8
  HeadRows q, k, v;
  const bool* visible;  // [B, H, R], or null: all are
  int64_t span;         // queries of a thread block, as in head_span.h
  HeadResults out;
};

struct SlotSoftmaxBackward {
  SlotSoftmax past;
  HeadRows dout;
  HeadResults dq;
  float *dk, *dv;  // [spans, B, H, R, E] and [.., D], to be added up
};

void slot_softmax_cuda(const SlotSoftmax& task, void* stream) noexcept;
void slot_softmax_backward_cuda(const SlotSoftmaxBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// Two parts of one softmax as one; ops/join_softmax.h defines it. Numbers are bfloat16 or float16,
// sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct JoinSoftmax {
  Element type;
  int64_t batch, heads, tokens, width;  // a multiple of 8 up to 256
  int64_t other_tokens, spread;         // rows of b: row i of a meets row i / spread
  HeadRows a, b;
  const float *log_a, *log_b;          // [B, H, tokens], [B, H, other_tokens]
  int64_t log_a_stride, log_b_stride;  // from head to head, and from the last one to the next batch
  HeadResults out;
  float* log_sum;  // [B, H, tokens]
};

struct JoinSoftmaxBackward {
  JoinSoftmax past;  // its results are not read
  HeadRows dout;
  const float* dlog_sum;
  HeadResults da, db;
  float *dlog_a, *dlog_b;
};

void join_softmax_cuda(const JoinSoftmax& task, void* stream) noexcept;
void join_softmax_backward_cuda(const JoinSoftmaxBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

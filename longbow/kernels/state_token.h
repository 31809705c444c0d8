#pragma once
// One token of ops/state_space.h, as decoding takes it: the sums are read and written once. A
// thread has a column of them, and one of some parts of their rows.
#include <cstdint>

namespace longbow::kernels {

struct StateToken {
  const void* rows;               // [batch, heads width + 2 groups state]: x, b, c
  int64_t rows_batch;             // from token to token
  bool half;                      // rows and out are bfloat16, else float32
  const float *step, *log_decay;  // [batch, heads]
  const float* skip;              // [heads]
  const float* before;            // [batch, groups, state, heads / groups width], or null
  float* after;
  void* out;  // [batch, heads width]
  int64_t batch, heads, width, groups, state;
};

void state_token_cuda(const StateToken& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// Rows and columns divided by their sums; ops/doubly_stochastic.h defines it.
#include <cstdint>

namespace longbow::kernels {

struct DoublyStochastic {
  static constexpr int kMost = 128;  // rows and columns
  const float* x;                    // [count, rows, columns]
  float* sums;                       // [count, iterations, rows + columns]
  int64_t count;
  int rows, columns, iterations;
};
struct DoublyStochasticForward {
  DoublyStochastic past;
  float* out;  // as x
};
struct DoublyStochasticBackward {
  DoublyStochastic past;
  const float* dout;  // as x
  float* dx;
};

void doubly_stochastic_cuda(const DoublyStochasticForward& task, void* stream) noexcept;
void doubly_stochastic_backward_cuda(const DoublyStochasticBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// ops/log_gate.h: numbers of bfloat16 to float32, and back; a multiple of 8 of them.
#include <cstdint>

namespace longbow::kernels {

struct LogGate {
  const void* logit;
  float* out;
  int64_t count;
  float divisor;
};

struct LogGateBackward {
  const float* dout;
  const void* logit;
  void* dlogit;
  int64_t count;
  float divisor;
};

void log_gate_cuda(const LogGate& task, void* stream) noexcept;
void log_gate_backward_cuda(const LogGateBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

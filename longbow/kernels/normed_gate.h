#pragma once
// ops/normed_gate.h over rows of bfloat16; vectors and sums are float32. A thread block has a row
// at a time, a thread 8 channels of it.
#include <cstdint>

namespace longbow::kernels {

struct NormedGate {
  const void *x, *other, *gate;              // [tokens, groups, width]; other may be null
  int64_t x_token, other_token, gate_token;  // from token to token
  const float* weight;                       // [groups, width]
  void* y;                                   // [tokens, groups, width] without gaps
  int64_t tokens, groups, width;
  float epsilon;
};

struct NormedGateBackward {
  NormedGate past;  // y is not read
  const void* dy;   // as y, and so are the gradients
  void *dx, *dother, *dgate;
  float* sums;  // [parts, groups, width]: of dweight
  int64_t parts;
};

constexpr bool normed_gate_fits(int64_t width) noexcept {
  return width > 0 && width <= 4096 && width % 8 == 0;
}
// How many sums of dweight there are.
int64_t normed_gate_parts(int64_t tokens) noexcept;

void normed_gate_cuda(const NormedGate& task, void* stream) noexcept;
void normed_gate_backward_cuda(const NormedGateBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

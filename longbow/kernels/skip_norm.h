#pragma once
// ops/skip_norm.h over rows of bfloat16; vectors and sums are float32. A thread block has a row at
// a time, a thread 8 channels of it.
#include <cstdint>

namespace longbow::kernels {

struct SkipNorm {
  const void *o, *x, *gate;              // [tokens, groups, width]
  int64_t o_token, x_token, gate_token;  // from token to token
  const float *skip, *weight;            // [groups, width]
  void* y;                               // [tokens, groups, width] without gaps
  int64_t tokens, groups, width;
  float epsilon;
};

struct SkipNormBackward {
  SkipNorm past;   // y is not read
  const void* dy;  // as y, and so are the gradients
  void *d_o, *dx, *dgate;
  float* sums;  // [parts, 2, groups, width]: of dskip, of dweight
  int64_t parts;
};

constexpr bool skip_norm_fits(int64_t width) noexcept {
  return width > 0 && width <= 4096 && width % 8 == 0;
}
// How many sums of dskip and dweight there are.
int64_t skip_norm_parts(int64_t tokens) noexcept;

void skip_norm_cuda(const SkipNorm& task, void* stream) noexcept;
void skip_norm_backward_cuda(const SkipNormBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

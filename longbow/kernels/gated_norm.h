#pragma once
// ops/gated_norm.h over rows of `width` channels, a multiple of 8 up to 256. Numbers are bfloat16,
// the weight and sums float32. A row is read 16 bytes at a time by up to 32 threads, which keep it
// in registers.
#include <cstdint>

namespace longbow::kernels {

struct GatedNorm {
  const void *x, *other, *gate;              // [tokens, heads, width]; other and gate may be null
  int64_t x_token, other_token, gate_token;  // from token to token
  const float* weight;                       // [width]
  void* y;                                   // [tokens, heads, width] without gaps
  int64_t tokens, heads, width;
  float epsilon;
};

struct GatedNormBackward {
  GatedNorm past;  // y is not read
  const void* dy;  // as y, and so are the gradients
  void *dx, *dother, *dgate;
  float* dweight;  // [parts, width]
  int64_t parts;
};

constexpr bool gated_norm_fits(int64_t width) noexcept {
  return width > 0 && width <= 256 && width % 8 == 0;
}
// How many sums of dweight there are.
int64_t gated_norm_parts(int64_t rows, int64_t width) noexcept;

void gated_norm_cuda(const GatedNorm& task, void* stream) noexcept;
void gated_norm_backward_cuda(const GatedNormBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

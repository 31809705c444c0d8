#pragma once
#include <cstdint>

namespace longbow::kernels {

enum class NormType { float32, bfloat16, float16 };

// y = (x - mean) rstd weight + bias over rows of `width` numbers without gaps. Numbers of all
// tensors but mean and rstd are of one type; sums are in float32.
struct LayerNorm {
  NormType type;
  const void *x, *weight, *bias;
  void* y;
  float *mean, *rstd;  // [rows]
  int64_t rows, width;
  double epsilon;
};

// dx, and what each of `parts` blocks of threads adds up for dweight and dbias.
struct LayerNormBackward {
  NormType type;
  const void *x, *weight, *dy;
  const float *mean, *rstd;
  void* dx;
  float* sums;  // [parts, 2, width]: of dweight, of dbias
  int64_t rows, width, parts;
};

// Rows are read 16 bytes at a time by up to 32 threads, which keep them in registers.
bool layer_norm_fits(NormType type, int64_t width) noexcept;
int64_t layer_norm_parts(NormType type, int64_t rows, int64_t width) noexcept;
void layer_norm_cuda(const LayerNorm& task, void* stream) noexcept;
void layer_norm_backward_cuda(const LayerNormBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// Work on many short rows of numbers. A row is read 16 bytes at a time by up to 32 threads, which
// keep it in registers; numbers are of one type and sums are in float32. Rows that are read stand a
// stride apart, counted in numbers, that keeps them at multiples of 16 bytes; results have no gaps.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

bool rows_fit(Element type, int64_t width) noexcept;
// Into how many parts sums over rows are split; each has a row of its own.
int64_t row_parts(Element type, int64_t rows, int64_t width) noexcept;

// y = (x - mean) rstd weight + bias.
struct LayerNorm {
  Element type;
  const void *x, *weight, *bias;
  void* y;
  float *mean, *rstd;           // [rows]
  int64_t rows, width, stride;  // of x
  double epsilon;
};

// dx, and the parts of dweight and dbias.
struct LayerNormBackward {
  Element type;
  const void *x, *weight, *dy;
  const float *mean, *rstd;
  void* dx;
  float* sums;  // [parts, 2, width]: of dweight, of dbias
  int64_t rows, width, parts;
  int64_t stride, dy_stride;  // of x and dy
};

struct RowSum {
  Element type;
  const void* x;
  float* sums;  // [parts, width]
  int64_t rows, width, parts;
  int64_t stride;  // from a row to the next, a multiple of 16 bytes
};

void layer_norm_cuda(const LayerNorm& task, void* stream) noexcept;
void layer_norm_backward_cuda(const LayerNormBackward& task, void* stream) noexcept;
void row_sum_cuda(const RowSum& task, void* stream) noexcept;

}  // namespace longbow::kernels

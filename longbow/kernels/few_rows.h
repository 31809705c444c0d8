#pragma once
// Products of few rows with a matrix, as decoding has them, on a CPU.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

struct FewRows {
  Rows<const float> x, w;  // [rows, depth], [columns, depth]
  const float* bias;       // [columns] or null
  int64_t rows, depth;
  Rows<float> y;  // [rows, columns]
};
// y = x w^T + bias, for columns first … last - 1.
void few_rows(const FewRows& task, int64_t first, int64_t last) noexcept;

}  // namespace longbow::kernels

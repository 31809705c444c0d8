#pragma once
// Products of many rows with a small matrix, as layers have them, on a CPU.
#include <cstdint>
#include <span>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// The right factor comes in panels of 32 columns, of which the last may be half as wide.
constexpr int64_t kPanel = 32, kHalfPanel = 16;
constexpr int64_t panels_of(int64_t columns) {
  return (columns + kPanel - 1) / kPanel;
}

// Rows of a panel: the depth, filled up because a transposed matrix is written in squares.
constexpr int64_t panel_rows(int64_t depth) {
  return (depth + kHalfPanel - 1) / kHalfPanel * kHalfPanel;
}

// b [depth, columns], or its transpose as it is, as panels [panel_rows, 32] one behind the other.
struct PackedPanels {
  Rows<const float> b;
  bool transposed;  // b is [columns, depth]
  int64_t depth, columns;
  float* panels;  // [panels_of(columns), panel_rows(depth), 32]
};
void pack_panels(const PackedPanels& task, int64_t first, int64_t last) noexcept;

// Columns of a left factor that lie in one place. Those beside them may lie elsewhere.
struct LeftColumns {
  Rows<const float> rows;
  int64_t width;
};

// y = x b + bias, for rows first … last - 1 of x.
struct RowsProduct {
  std::span<const LeftColumns> x;  // [rows, depth]
  const float* panels;
  const float* bias;  // [columns] or null
  int64_t depth, columns;
  Rows<float> y;  // [rows, columns]
};
void rows_product(const RowsProduct& task, int64_t first, int64_t last) noexcept;

// out = a^T b over all rows, for rows first … last - 1 of out, and sums of these columns of a.
struct ColumnsProduct {
  std::span<const LeftColumns> a;  // [rows, .]
  Rows<const float> b;             // [rows, columns]
  int64_t rows, columns;
  Rows<float> out;
  float* sums;
};
void columns_product(const ColumnsProduct& task, int64_t first, int64_t last) noexcept;

}  // namespace longbow::kernels

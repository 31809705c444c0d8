#pragma once
// Rows of a chunk of tokens in whole vectors, and products of them.
#include <algorithm>

#include "longbow/kernels/cpu/tile_product.h"

namespace longbow::kernels {

template <class T>
[[gnu::always_inline]] inline void read_rows(const T* from, int64_t row, int64_t rows,
                                             int64_t width, T factor, T* to) {
  const int64_t wide = padded<T>(width);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) to[i * wide + c] = factor * from[i * row + c];
    std::fill(to + i * wide + width, to + (i + 1) * wide, T(0));
  }
}
template <class T>
[[gnu::always_inline]] inline void write_rows(const T* from, int64_t rows, int64_t width, T* to,
                                              int64_t row) {
  for (int64_t i = 0; i < rows; ++i)
    std::copy(from + i * padded<T>(width), from + i * padded<T>(width) + width, to + i * row);
}

// out = a b, or added to it: a [rows, depth] and b [depth, columns], whose rows are whole vectors
// as those of the result.
template <class M, class T>
[[gnu::always_inline]] inline void multiply(int64_t rows, int64_t depth, int64_t columns,
                                            const T* a, int64_t a_row, int64_t a_step, const T* b,
                                            T* out, bool add = false) {
  tile_product<M, T>({.rows = rows,
                      .columns = columns,
                      .depth = depth,
                      .a = a,
                      .a_row = a_row,
                      .a_step = a_step,
                      .b = b,
                      .b_row = padded<T>(columns),
                      .out = out,
                      .out_row = padded<T>(columns),
                      .add = add});
}

}  // namespace longbow::kernels

#pragma once
#include <utility>

#include "longbow/kernels/cpu/machine.h"

namespace longbow::kernels {

// Lane l of a, where bit kStep of l is 0, and lane l - kStep of b, where it is 1; and lane l +
// kStep of a beside lane l of b.
template <int kStep, class V, int... kLane>
[[gnu::always_inline]] inline void exchange(V& a, V& b, std::integer_sequence<int, kLane...>) {
  constexpr int kCount = sizeof...(kLane);
  const V low =
      __builtin_shufflevector(a, b, ((kLane & kStep) == 0 ? kLane : kCount + kLane - kStep)...);
  const V high =
      __builtin_shufflevector(a, b, ((kLane & kStep) == 0 ? kLane + kStep : kCount + kLane)...);
  a = low;
  b = high;
}

template <int kStep, class V, int kCount>
[[gnu::always_inline]] inline void exchange_all(V (&rows)[kCount]) {
  if constexpr (kStep < kCount) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
      if ((i & kStep) == 0)
        exchange<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kCount>());
    exchange_all<2 * kStep>(rows);
  }
}

// A square of vectors of `rows`, in whole or only as far as there are rows and columns, which are
// not followed by others of ours.
template <class T, class V, int kCount>
[[gnu::always_inline]] inline void load_square(V (&square)[kCount], const T* rows, int64_t row,
                                               int64_t count, int64_t width) {
  if (count >= kCount && width >= kCount) {
#pragma GCC unroll 16
    for (int j = 0; j < kCount; ++j) load(square[j], rows + j * row);
    return;
  }
  for (int j = 0; j < kCount; ++j) {
    T part[kCount] = {};
    for (int64_t l = 0; j < count && l < width && l < kCount; ++l) part[l] = rows[j * row + l];
    load(square[j], part);
  }
}

// to [width, columns] = factor rows [count, width] transposed, in squares of vectors; zeros behind
// the last row. `columns` and the room for each row of `to` are whole vectors, and so is the room
// for rows of `to`, padded<T>(width) of them.
template <class M, class T>
[[gnu::always_inline]] inline void transpose_rows(const T* rows, int64_t row, int64_t count,
                                                  int64_t width, T factor, T* to, int64_t columns) {
  constexpr int kLane = static_cast<int>(kLanes<M, T>);
  for (int64_t i = 0; i < columns; i += kLane)
    for (int64_t c = 0; c < width; c += kLane) {
      Vector<M, T> square[kLane];
      load_square(square, rows + i * row + c, row, count - i, width - c);
      exchange_all<1>(square);
#pragma GCC unroll 16
      for (int j = 0; j < kLane; ++j) {
        square[j] *= factor;
        store(square[j], to + (c + j) * columns + i);
      }
    }
}

}  // namespace longbow::kernels

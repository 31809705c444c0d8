#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "longbow/kernels/cpu/machine.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/feature_attention.h"

namespace longbow::kernels {

// Where the parts of the sums stand.
template <class T>
struct SumsLayout {
  T *values, *weights, *peak;  // [R, D] in whole vectors, [R], [1]
  SumsLayout(T* all, int64_t features, int64_t value_width)
      : values(all),
        weights(all + features * padded<T>(value_width)),
        peak(weights + padded<T>(features)) {}
};

// [rows, D] of a tile as they are, filled up to whole vectors.
template <class T>
[[gnu::always_inline]] inline void copy_rows(const Rows<const T>& from, int64_t first, int64_t rows,
                                             int64_t width, T* to) {
  gather_rows(
      from.data + first * from.row, from.row, rows, width,
      [](int64_t i) __attribute__((always_inline)) { return i; }, to, padded<T>(width));
}

// What a query has read, divided, and the factor.
template <class T>
[[gnu::always_inline]] inline void write_read(const FeatureAttention<T>& task, int64_t token,
                                              T weights, const T* read) {
  const T all = weights + task.added, factor = 1 / std::max(all, task.least);
  T* const __restrict row = task.out.data + token * task.out.row;
  for (int64_t c = 0; c < task.value_width; ++c)
    row[c] = task.normalised ? factor * read[c] : read[c];
  task.inverse[token] = !task.normalised ? weights : all >= task.least ? factor : -factor;
}

// 1 / d, and the gradient of the sum of weights, where phi . t = `read`.
template <class T>
struct WeightSlope {
  T factor = 0, slope = 0;
};
template <class T>
[[gnu::always_inline]] inline WeightSlope<T> weight_slope(const FeatureAttention<T>& task,
                                                          int64_t token, T read) {
  if (!task.normalised) return {1, task.dweights[token]};
  const T inverse = task.inverse[token];
  return {std::abs(inverse), inverse > 0 ? -read * inverse * inverse : T(0)};
}

}  // namespace longbow::kernels

#pragma once
// Positive random features of the tokens of one head on a CPU, as rows: with y = scale x,
//   phi_r = exp(omega_r . y - |y|^2 / 2 - peak),
// or, mirrored, of the rows of omega and then of their negatives.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

template <class T>
struct ExponentialRows {
  Rows<const T> x;  // [N, E]
  int64_t tokens, width, features;
  const T* omega;  // [R, E], mirrored [R / 2, E]
  bool mirrored;
  T scale;
  const bool* keep;  // [N] or null: features of others are 0
  Rows<T> phi;       // [N, R]
  T* peaks;          // [N]
};
// du = phi dphi,  dx = scale (du omega - y sum_r du); mirrored, du omega is of differences.
template <class T>
struct ExponentialRowsBackward {
  ExponentialRows<T> past;
  Rows<const T> dphi;
  Rows<T> dx;
};

// Tiles `first` … `last` - 1 of exponential_tiles: features relative to the largest exponent of
// each token, in `peaks` (-infinity where it is not kept). Or first the exponents without a peak,
// and the largest of each token; then features, relative to `peaks`.
int64_t exponential_tiles(int64_t tokens) noexcept;
template <class T>
void exponential_rows(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void find_exponents(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void raise_exponents(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept;
template <class T>
void exponential_rows_backward(const ExponentialRowsBackward<T>& task, int64_t first,
                               int64_t last) noexcept;

}  // namespace longbow::kernels

// The state stays in registers while the sequence passes once: each number is read once and written
// once. Long sums of float are kept in double.
#include "longbow/kernels/diagonal_scan.h"

namespace longbow::kernels {
namespace {

// Of `modes` modes, which the compiler unrolls where it knows them.
template <bool with_products, class T>
[[gnu::always_inline]] inline void scan(const DiagonalScan<T>& task, int64_t modes) {
  T a_real[kScanModes], a_imag[kScanModes], real[kScanModes] = {}, imag[kScanModes] = {};
  double sum_real[kScanModes] = {}, sum_imag[kScanModes] = {};
  for (int64_t m = 0; m < modes; ++m) {
    a_real[m] = task.factors[2 * m];
    a_imag[m] = task.factors[2 * m + 1];
  }
  const int64_t step = task.reversed ? -task.stride : task.stride;
  int64_t row = task.reversed ? (task.length - 1) * task.stride : 0;
  for (int64_t t = 0; t < task.length; ++t, row += step) {
    const T* b = task.b + row;
    T* out = task.out + row;
    for (int64_t m = 0; m < modes; ++m) {
      const T before = real[m];
      real[m] = a_real[m] * before - a_imag[m] * imag[m] + b[2 * m];
      imag[m] = a_real[m] * imag[m] + a_imag[m] * before + b[2 * m + 1];
      out[2 * m] = real[m];
      out[2 * m + 1] = imag[m];
    }
    if (!with_products || t + 1 == task.length) continue;
    const T* other = task.others + row + step;
    for (int64_t m = 0; m < modes; ++m) {
      sum_real[m] += other[2 * m] * real[m] + other[2 * m + 1] * imag[m];
      sum_imag[m] += other[2 * m] * imag[m] - other[2 * m + 1] * real[m];
    }
  }
  for (int64_t m = 0; with_products && m < modes; ++m) {
    task.products[2 * m] = sum_real[m];
    task.products[2 * m + 1] = sum_imag[m];
  }
}

template <class T>
[[gnu::always_inline]] inline void run(const DiagonalScan<T>& task) {
  const bool whole = task.modes == kScanModes;
  if (task.products)
    whole ? scan<true>(task, kScanModes) : scan<true>(task, task.modes);
  else
    whole ? scan<false>(task, kScanModes) : scan<false>(task, task.modes);
}

LONGBOW_CLONES void run_float(const DiagonalScan<float>& task) {
  run(task);
}
LONGBOW_CLONES void run_double(const DiagonalScan<double>& task) {
  run(task);
}

}  // namespace

void diagonal_scan(const DiagonalScan<float>& task) noexcept {
  run_float(task);
}
void diagonal_scan(const DiagonalScan<double>& task) noexcept {
  run_double(task);
}

}  // namespace longbow::kernels

#pragma once
#include <cstdint>

namespace longbow::kernels {

// The states of up to kScanModes modes of a diagonal linear system along one sequence,
//   x_t = a x_{t-1} + b_t,   or  x_t = a x_{t+1} + b_t  when reversed,
// with x zero outside of it. All numbers are complex, as pairs of real ones.
constexpr int64_t kScanModes = 16;

template <class T>
struct DiagonalScan {
  const T* factors;        // a [modes, 2]
  const T* b;              // [length, modes, 2]
  T* out;                  // x [length, modes, 2]
  int64_t length, stride;  // `stride` numbers from one row of b, x or `others` to the next
  int64_t modes;
  bool reversed;
  // Where given, `products` are the sums over t of x_t times the conjugate of the row of `others`
  // that the scan comes to after t: what the gradient of a needs of the scan it runs against.
  const T* others = nullptr;   // [length, modes, 2]
  double* products = nullptr;  // [modes, 2]
};
void diagonal_scan(const DiagonalScan<float>& task) noexcept;
void diagonal_scan(const DiagonalScan<double>& task) noexcept;

}  // namespace longbow::kernels

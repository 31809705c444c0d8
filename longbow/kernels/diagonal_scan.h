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

// The same of all sequences on a GPU, in chunks of kScanChunk tokens.
constexpr int64_t kScanChunk = 32;

struct DiagonalScans {
  const float* factors;  // a [P, 2]
  const float* b;        // [B, N, P, 2]
  float* out;            // x [B, N, P, 2]
  float* starts;         // [B, chunks, P, 2]: the states before each chunk
  int64_t batch, length, modes;
  bool reversed;
  const float* others;  // as above, or null
  float* products;      // [B, chunks, P, 2]: of each chunk
};
void diagonal_scans_cuda(const DiagonalScans& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
#include <cstdint>

namespace longbow::kernels {

// out_t = sum over i <= t (i >= t when reversed) of (x_t . y_i) z_i, for each of `batch` sequences.
// The running sum of outer products stays in float or double on chip; nothing of length x p x q
// exists.
template <class T>
struct CausalProduct {
  const T *x, *y;  // [batch, length, p]
  const T* z;      // [batch, length, q]
  T* out;          // [batch, length, q]
  int64_t batch, length, p, q;
  bool reversed;
};
void causal_product(const CausalProduct<float>& task) noexcept;
void causal_product(const CausalProduct<double>& task) noexcept;

}  // namespace longbow::kernels

#pragma once
// Products of 16 tokens, those of a warp, with 16 others.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_tiles.h"

namespace longbow::kernels {

// c [16, 16] += a [16, W] times 16 rows, transposed.
template <int W>
__device__ inline void times_columns(mma::C (&c)[2], const mma::A (&a)[W / 16],
                                     const Number* rows) {
#pragma unroll
  for (int k = 0; k < W / 16; ++k) {
    const mma::TwoB b = mma::b_of_columns(rows + k * 16, mma::padded(W));
    mma::multiply<Number>(c[0], a[k], b.tile[0]);
    mma::multiply<Number>(c[1], a[k], b.tile[1]);
  }
}

// c [16, W] += a [16, 16] times 16 rows.
template <int W>
__device__ inline void times_rows(mma::C (&c)[W / 8], const mma::A& a, const Number* rows) {
#pragma unroll
  for (int n = 0; n < W / 16; ++n) {
    const mma::TwoB b = mma::b_of_rows(rows + n * 16, mma::padded(W));
    mma::multiply<Number>(c[2 * n], a, b.tile[0]);
    mma::multiply<Number>(c[2 * n + 1], a, b.tile[1]);
  }
}

template <int W>
__device__ inline void left_of_rows(mma::A (&a)[W / 16], const Number* rows) {
#pragma unroll
  for (int k = 0; k < W / 16; ++k) a[k] = mma::a_of_rows(rows + k * 16, mma::padded(W));
}

}  // namespace longbow::kernels
#endif

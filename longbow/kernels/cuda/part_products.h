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

// Rows of a product, each times its number.
template <int W>
__device__ inline void scale_rows(mma::C (&c)[W / 8], float upper, float lower) {
#pragma unroll
  for (int n = 0; n < W / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n].part[i] *= i < 2 ? upper : lower;
}

// Of 16 rows in shared memory and 16 of a product, the rows g and g + 8: sums over their columns.
template <int W>
__device__ inline float2 row_products(const Number* rows, const mma::C (&c)[W / 8]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  float sum[2] = {};
#pragma unroll
  for (int n = 0; n < W / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 two = mma::unpack<Number>(*reinterpret_cast<const uint32_t*>(
          rows + (g + 8 * half) * mma::padded(W) + n * 8 + 2 * t));
      sum[half] += two.x * c[n].part[2 * half] + two.y * c[n].part[2 * half + 1];
    }
#pragma unroll
  for (float& half : sum) {
    half += __shfl_xor_sync(0xffffffffu, half, 1);
    half += __shfl_xor_sync(0xffffffffu, half, 2);
  }
  return {sum[0], sum[1]};
}

}  // namespace longbow::kernels
#endif

#pragma once
// Tiles of rows in shared memory, each `padded` from the next, and their products, which the 32
// threads of a warp hold.
#ifdef __CUDACC__
#include <cstdint>

#include "longbow/kernels/cuda/mma.h"

namespace longbow::kernels::blocks {

// Rows of which token(row) says where they stand; zeros for -1, and behind the width. A thread has
// the same columns of all its rows.
template <int kWidth, class T, class F>
__device__ __forceinline__ void load_rows(T* to, const T* from, int64_t stride, int rows, int width,
                                          const F& token) {
  constexpr int kPacks = kWidth / 8;
  static_assert(32 % kPacks == 0);
  const int column = static_cast<int>(threadIdx.x) % kPacks * 8;
  const auto step = static_cast<int>(blockDim.x) / kPacks;
  const bool within = column < width;
  const T* const source = within ? from + column : from;
#pragma unroll 4
  for (int row = static_cast<int>(threadIdx.x) / kPacks; row < rows; row += step) {
    const int at = token(row);
    const bool there = within && at >= 0;
    mma::copy_async(to + row * mma::padded(kWidth) + column, there ? source + at * stride : from,
                    there);
  }
}

// The left factors of a warp: 16 kRows rows in shared memory.
template <int kRows, int kSteps, class T>
__device__ __forceinline__ void load_left(mma::A (&a)[kRows][kSteps], const T* rows) {
  constexpr int kStride = mma::padded(kSteps * 16);
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      a[m][step] = mma::a_of_rows(rows + m * 16 * kStride + step * 16, kStride);
}

// c += a b^T for 8 kTiles rows b in shared memory.
template <class T, int kRows, int kTiles, int kSteps>
__device__ __forceinline__ void add_products(mma::C (&c)[kRows][kTiles],
                                             const mma::A (&a)[kRows][kSteps], const T* b) {
  constexpr int kStride = mma::padded(kSteps * 16);
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const auto two = mma::b_of_columns(b + n * 8 * kStride + step * 16, kStride);
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma::multiply<T>(c[m][n], a[m][step], two.tile[0]);
        mma::multiply<T>(c[m][n + 1], a[m][step], two.tile[1]);
      }
    }
}

// The same where 16 kRows rows a are in shared memory too.
template <class T, int kSteps, int kRows, int kTiles>
__device__ __forceinline__ void add_row_products(mma::C (&c)[kRows][kTiles], const T* a,
                                                 const T* b) {
  constexpr int kStride = mma::padded(kSteps * 16);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    mma::A left[kRows][1];
#pragma unroll
    for (int m = 0; m < kRows; ++m)
      left[m][0] = mma::a_of_rows(a + m * 16 * kStride + step * 16, kStride);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const auto two = mma::b_of_columns(b + n * 8 * kStride + step * 16, kStride);
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        mma::multiply<T>(c[m][n], left[m][0], two.tile[0]);
        mma::multiply<T>(c[m][n + 1], left[m][0], two.tile[1]);
      }
    }
  }
}

// sum += w rows for the weights of 16 rows in shared memory.
template <class T, int kRows, int kTiles>
__device__ __forceinline__ void add_weighed(mma::C (&sum)[kRows][kTiles], const mma::A (&w)[kRows],
                                            const T* rows) {
  constexpr int kStride = mma::padded(kTiles * 8);
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    const auto two = mma::b_of_rows(rows + n * 8, kStride);
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      mma::multiply<T>(sum[m][n], w[m], two.tile[0]);
      mma::multiply<T>(sum[m][n + 1], w[m], two.tile[1]);
    }
  }
}

// Rows of one warp, of which the first `rows` exist: rounded, laid out in shared memory that this
// warp alone uses, and stored 16 bytes at a time where place(row) says.
template <class T, int kWidth, int kRows, class F>
__device__ __forceinline__ void store_rows_at(const mma::C (&sums)[kRows][kWidth / 8],
                                              const float (&factor)[kRows][2], T* room, int rows,
                                              int width, const F& place) {
  constexpr int kStride = mma::padded(kWidth), kPacks = kWidth / 8;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(room + (m * 16 + half * 8 + g) * kStride + n * 8 + 2 * t) =
            mma::pack<T>(sums[m][n].part[2 * half] * factor[m][half],
                         sums[m][n].part[2 * half + 1] * factor[m][half]);
  __syncwarp();
  for (int i = lane; i < kRows * 16 * kPacks; i += 32) {
    const int row = i / kPacks, column = i % kPacks * 8;
    if (row < rows && column < width)
      *reinterpret_cast<uint4*>(place(row) + column) =
          *reinterpret_cast<const uint4*>(room + row * kStride + column);
  }
}

template <class T, int kWidth, int kRows>
__device__ __forceinline__ void store_rows(const mma::C (&sums)[kRows][kWidth / 8],
                                           const float (&factor)[kRows][2], T* room, T* to,
                                           int64_t stride, int rows, int width) {
  store_rows_at<T, kWidth, kRows>(sums, factor, room, rows, width,
                                  [&](int row) { return to + row * stride; });
}

template <class T, int kWidth, int kRows>
__device__ __forceinline__ void store_rows(const mma::C (&sums)[kRows][kWidth / 8], T* room, T* to,
                                           int64_t stride, int rows, int width, float scale = 1) {
  float all[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m) all[m][0] = all[m][1] = scale;
  store_rows<T, kWidth, kRows>(sums, all, room, to, stride, rows, width);
}

}  // namespace longbow::kernels::blocks
#endif

#pragma once
// Products of float32 numbers on tensor cores, as exact as those of float32: each number is the sum
// of one that TF32 represents and a rest, and
//   a b ~ high(a) high(b) + high(a) rest(b) + rest(a) high(b)   up to 2^-21 of a b.
// Tensor cores cut off what their sums cannot hold, so that every 16 terms are added up there, the
// small ones first, and these sums by rounding additions.
// In a tile of numbers in shared memory rows follow each other without gaps and the bits 3 and 4 of
// a column are turned with the row: threads that read rows side by side, or columns, four numbers
// each, then meet in no bank.
#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <cstdint>

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels::floats {

using mma::A, mma::B, mma::C;

// The nearest number that TF32 represents; cvt.rna.tf32.f32 is twice as many instructions.
__device__ __forceinline__ uint32_t high_of(float x) {
  return (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
}
__device__ __forceinline__ uint32_t rest_of(float x, uint32_t high) {
  return __float_as_uint(x - __uint_as_float(high));
}

// Factors of 16 terms. A thread has the terms 4t … 4t + 3 of a row, two of each product of tiles.
struct Left {
  A high[2], rest[2];
};
struct Right {
  B high[2], rest[2];
};
// Of the rows g and g + 8.
__device__ __forceinline__ Left left_of(const float4& upper, const float4& lower) {
  const float part[2][4] = {{upper.x, lower.x, upper.y, lower.y},
                            {upper.z, lower.z, upper.w, lower.w}};
  Left a;
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a.high[k].part[i] = high_of(part[k][i]);
      a.rest[k].part[i] = rest_of(part[k][i], a.high[k].part[i]);
    }
  return a;
}
// Of the column g.
__device__ __forceinline__ Right right_of(const float4& column) {
  const float part[2][2] = {{column.x, column.y}, {column.z, column.w}};
  Right b;
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      b.high[k].part[i] = high_of(part[k][i]);
      b.rest[k].part[i] = rest_of(part[k][i], b.high[k].part[i]);
    }
  return b;
}

// sum [16, 8] += the product of 16 terms.
__device__ __forceinline__ void add_product(C& sum, const Left& a, const Right& b) {
  C part = {};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    mma::multiply_tf32(part, a.rest[k], b.high[k]);
    mma::multiply_tf32(part, a.high[k], b.rest[k]);
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) mma::multiply_tf32(part, a.high[k], b.high[k]);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum.part[i] += part.part[i];
}

// What a row adds to the bits 3 and 4 of its columns; of rows without common bits it is the xor.
__device__ __forceinline__ constexpr int turn(int row) {
  return (row >> 2 & 1) << 3 | ((row ^ row >> 1 ^ row >> 3) & 1) << 4;
}
// Four numbers of a tile; row and column are given as what the compiler knows and what it does not,
// which have no bits in common.
struct Place {
  int row, column;
};
template <int kWidth>
__device__ __forceinline__ const float4& four_at(const float* tile, const Place& fixed,
                                                 const Place& own) {
  const int column = (fixed.column ^ turn(fixed.row)) ^ (own.column ^ turn(own.row));
  return *reinterpret_cast<const float4*>(tile + (fixed.row + own.row) * kWidth + column);
}

// In rows of 16, column n of tile j < 2 is number 4 (n / 2) + n % 2 + 2 j: so a thread has
// neighbours 4t … 4t + 3 of two tiles beside each other.
__device__ __forceinline__ int row_of_lane() {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  return g / 2 * 4 + g % 2;
}
__device__ __forceinline__ float4 neighbours(const C (&two)[2], int half) {
  return make_float4(two[0].part[2 * half], two[0].part[2 * half + 1], two[1].part[2 * half],
                     two[1].part[2 * half + 1]);
}

// c [16, 16 kPairs] += a b^T for 16 kPairs rows b of a tile; left(k) is a's terms 16 k ….
template <int kWidth, int kPairs, class F>
__device__ __forceinline__ void add_products(C (&c)[kPairs][2], const F& left, const float* b) {
  const Place own = {row_of_lane(), static_cast<int>(threadIdx.x) % 4 * 4};
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    const Left a = left(k);
#pragma unroll
    for (int n = 0; n < kPairs; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        add_product(c[n][j], a, right_of(four_at<kWidth>(b, {n * 16 + j * 2, k * 16}, own)));
  }
}

// sum [16, 32 kParts] += a b for 16 rows b of a tile, columns column …. Of 32 columns, tile j has
// those of 4n + j: so a thread has neighbours 8t … 8t + 7 of four tiles.
template <int kWidth, int kParts>
__device__ __forceinline__ void add_rows(C (&sum)[kParts][4], const Left& a, const float* b,
                                         int column = 0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Place own = {lane % 4 * 4, lane / 4 * 4};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    float4 row[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) row[c] = four_at<kWidth>(b + column + part * 32, {c, 0}, own);
    add_product(sum[part][0], a, right_of(make_float4(row[0].x, row[1].x, row[2].x, row[3].x)));
    add_product(sum[part][1], a, right_of(make_float4(row[0].y, row[1].y, row[2].y, row[3].y)));
    add_product(sum[part][2], a, right_of(make_float4(row[0].z, row[1].z, row[2].z, row[3].z)));
    add_product(sum[part][3], a, right_of(make_float4(row[0].w, row[1].w, row[2].w, row[3].w)));
  }
}
// The numbers 8t + 4 i … of row g or, with half = 1, g + 8 in such a part.
__device__ __forceinline__ float4 four_of(const C (&part)[4], int half, int i) {
  const int place = 2 * half + i;
  return make_float4(part[0].part[place], part[1].part[place], part[2].part[place],
                     part[3].part[place]);
}

// Begins to copy rows first … first + rows - 1 of a matrix, `stride` from each other, zeros behind
// the row `end` and the width.
template <int kWidth>
__device__ __forceinline__ void load_tile(float* tile, const float* from, int64_t stride, int rows,
                                          int64_t first, int64_t end, int width) {
  constexpr int kPacks = kWidth / 4;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPacks; i += blockDim.x) {
    const int row = i / kPacks, column = i % kPacks * 4;
    const bool there = first + row < end && column < width;
    mma::copy_async(tile + row * kWidth + (column ^ turn(row)),
                    there ? from + (first + row) * stride + column : from, there);
  }
}

}  // namespace longbow::kernels::floats
#endif

#pragma once
// Tensor cores from sm_80 on: C += A B for tiles A [16, 16], B [16, 8] of bfloat16 or float16 and C
// [16, 8] of float32, each held by the 32 threads of a warp. With g = lane / 4 and t = lane % 4 a
// thread holds
//   A (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with the number to its right;
//   B (2t, g), (2t + 8, g), each with the number below it;
//   C (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
// Tiles in shared memory begin at a multiple of 16 bytes, and so does each of their lines. Eight
// lines are read at once without bank conflicts if `stride`, from line to line in elements, is 8
// times an odd number: `padded` of a multiple of 16.
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels::mma {

__host__ __device__ constexpr int padded(int width) {
  return width + 8;
}

// A whose element (m, k) is tile[m stride + k].
template <class T>
__device__ inline A a_of_rows(const T* tile, int stride) {
  A a;
  load_matrices<false>(a.part, [&](int i) { return tile + (i % 16) * stride + i / 16 * 8; });
  return a;
}
// A whose element (m, k) is tile[k stride + m].
template <class T>
__device__ inline A a_of_columns(const T* tile, int stride) {
  A a;
  load_matrices<true>(a.part,
                      [&](int i) { return tile + (i % 8 + i / 16 * 8) * stride + i / 8 % 2 * 8; });
  return a;
}

// Two tiles B beside each other, n < 8 and n >= 8.
struct TwoB {
  B tile[2];
};
__device__ inline TwoB two_of(const uint32_t (&part)[4]) {
  return {{{{part[0], part[1]}}, {{part[2], part[3]}}}};
}
// B whose element (k, n) is tile[k stride + n].
template <class T>
__device__ inline TwoB b_of_rows(const T* tile, int stride) {
  uint32_t part[4];
  load_matrices<true>(part, [&](int i) { return tile + (i % 16) * stride + i / 16 * 8; });
  return two_of(part);
}
// B whose element (k, n) is tile[n stride + k].
template <class T>
__device__ inline TwoB b_of_columns(const T* tile, int stride) {
  uint32_t part[4];
  load_matrices<false>(part,
                       [&](int i) { return tile + (i % 8 + i / 16 * 8) * stride + i / 8 % 2 * 8; });
  return two_of(part);
}

// Two numbers rounded to the type, the first in the lower half.
template <class T>
__device__ inline uint32_t pack(float first, float second) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}
template <class T>
__device__ inline float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
  else
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}

// Two tiles C beside each other, [16, 16], as the left factor of another product.
template <class T>
__device__ inline A a_of(const C& left, const C& right) {
  return {{pack<T>(left.part[0], left.part[1]), pack<T>(left.part[2], left.part[3]),
           pack<T>(right.part[0], right.part[1]), pack<T>(right.part[2], right.part[3])}};
}

}  // namespace longbow::kernels::mma
#endif

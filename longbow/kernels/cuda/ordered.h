#pragma once
// Scores as whole numbers of the same order, from which the largest are chosen bit by bit.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {

// A larger number for a larger score, and back.
__device__ __forceinline__ unsigned ordered(float score) {
  const unsigned bits = __float_as_uint(score + 0.0f);  // -0 is 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float score_of(unsigned number) {
  return __uint_as_float(number & 0x80000000u ? number & 0x7fffffffu : ~number);
}

}  // namespace longbow::kernels
#endif

#pragma once
#ifdef __CUDACC__
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {

// 1 / (1 + e^-x). An exact division would branch for rare numbers, and behind a branch the compiler
// does not work on several numbers of a thread at once.
__device__ inline float sigmoid(float x) {
  return mma::inverse(1 + mma::power_of_two(-kLog2E * x));
}

}  // namespace longbow::kernels
#endif

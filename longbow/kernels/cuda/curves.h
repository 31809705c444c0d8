#pragma once
// Curves of perceptrons, each with its derivative.
#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels::curves {

struct Point {
  float value, slope;
};

// 1 / y by another step from what the instruction gives.
__device__ inline float exact_inverse(float y) {
  const float near = mma::inverse(y);
  return near * (2 - y * near);
}

// u Phi(u); Phi's tail by Abramowitz and Stegun 26.2.17, within 7.5e-8.
template <bool kExact = false>
__device__ inline Point gelu(float u) {
  const float bell = mma::power_of_two(-0.5f * kLog2E * u * u), y = 1 + 0.2316418880f * fabsf(u),
              t = kExact ? exact_inverse(y) : mma::inverse(y);
  const float tail =
      bell * t *
      (0.127414796f +
       t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
  const float share = u < 0 ? tail : 1 - tail;
  return {u * share, share + u * bell * 0.3989422804f};
}

}  // namespace longbow::kernels::curves
#endif

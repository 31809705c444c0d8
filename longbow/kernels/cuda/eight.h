#pragma once
// Eight numbers of bfloat16 or float16 at once, which are 16 bytes, as float32.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/mma.h"

namespace longbow::kernels {

struct Eight {
  float value[8];
};
template <class T>
__device__ inline Eight read(const T* from) {
  const auto four = *reinterpret_cast<const uint4*>(from);
  const float2 a = mma::unpack<T>(four.x), b = mma::unpack<T>(four.y), c = mma::unpack<T>(four.z),
               d = mma::unpack<T>(four.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}
template <class T>
__device__ inline void write(T* to, const Eight& x) {
  *reinterpret_cast<uint4*>(to) = {
      mma::pack<T>(x.value[0], x.value[1]), mma::pack<T>(x.value[2], x.value[3]),
      mma::pack<T>(x.value[4], x.value[5]), mma::pack<T>(x.value[6], x.value[7])};
}
__device__ inline float dot(const Eight& x, const Eight& y) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += x.value[i] * y.value[i];
  return sum;
}
__device__ inline void add(Eight& sum, float factor, const Eight& x) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.value[i] += factor * x.value[i];
}

}  // namespace longbow::kernels
#endif

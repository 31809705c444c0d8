#pragma once
// The words of CUDA C++ that the kernels use, for a C++ compiler; tests/emulation/block.h runs
// them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tests/emulation/block.h"

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("longbow_shared")))  // blocks run in turn
#define threadIdx (longbow::emulation::thread->index)
#define blockIdx (longbow::emulation::block)
#define blockDim (longbow::emulation::threads)
#define gridDim (longbow::emulation::blocks)

// Vectors, copied number by number: of a copy as a whole the compiler does not check the address.
namespace longbow::emulation {

template <class T>
struct alignas(2 * sizeof(T)) Two {
  T x, y;
  Two() = default;
  Two(T first, T second) : x(first), y(second) {}
  Two(const Two& from) : Two(from.x, from.y) {}
  Two& operator=(const Two& from) {
    x = from.x, y = from.y;
    return *this;
  }
};
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T x, y, z, w;
  Four() = default;
  Four(T first, T second, T third, T fourth) : x(first), y(second), z(third), w(fourth) {}
  Four(const Four& from) : Four(from.x, from.y, from.z, from.w) {}
  Four& operator=(const Four& from) {
    x = from.x, y = from.y, z = from.z, w = from.w;
    return *this;
  }
};

}  // namespace longbow::emulation

using float2 = longbow::emulation::Two<float>;
using float4 = longbow::emulation::Four<float>;
using uint2 = longbow::emulation::Two<unsigned>;
using uint4 = longbow::emulation::Four<unsigned>;
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

using std::max;
using std::min;
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
template <class T>
T atomicAdd(T* to, T x) {
  const T before = *to;
  *to += x;
  return before;
}
template <class T>
T atomicOr(T* to, T x) {
  const T before = *to;
  *to |= x;
  return before;
}
template <class T>
T atomicMin(T* to, T x) {
  const T before = *to;
  *to = min(before, x);
  return before;
}

inline void __syncthreads() {
  longbow::emulation::meet(0);
}
inline int __syncthreads_or(int any) {
  return longbow::emulation::meet(any);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  longbow::emulation::execute(mask, nullptr, nullptr, [](const auto&) {});
}
template <class T>
T __shfl_sync(unsigned mask, T x, int from) {
  struct Given {
    T x;
    int from;
  };
  return longbow::emulation::executed<T>(mask, Given{x, from}, [](const auto& lanes) {
    for (int i = 0; i < 32; ++i)
      if (lanes.has(i))
        lanes.give(i, lanes.template given<Given>(lanes.template given<Given>(i).from & 31).x);
  });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int other) {
  return __shfl_sync(mask, x, longbow::emulation::thread->lane ^ other);
}
inline unsigned __ballot_sync(unsigned mask, int holds) {
  return longbow::emulation::executed<unsigned>(mask, holds, [](const auto& lanes) {
    unsigned all = 0;
    for (int i = 0; i < 32; ++i)
      if (lanes.has(i) && lanes.template given<int>(i) != 0) all |= 1u << i;
    for (int i = 0; i < 32; ++i)
      if (lanes.has(i)) lanes.give(i, all);
  });
}
inline int __all_sync(unsigned mask, int holds) {
  return __ballot_sync(mask, holds == 0) == 0;
}

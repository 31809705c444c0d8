#pragma once
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float x) {
    const auto whole = std::bit_cast<uint32_t>(x);
    bits =
        std::isnan(x) ? 0x7fff : static_cast<uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16(float x) {
  return x;
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {x, y};
}
inline float2 __bfloat1622float2(__nv_bfloat162 both) {
  return {both.x, both.y};
}

#pragma once
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

struct __half {
  uint16_t bits;
  __half() = default;
  __half(float x) {
    const auto sign = static_cast<uint16_t>(std::signbit(x) << 15);
    const float size = std::fabs(x);
    if (std::isnan(x)) {
      bits = 0x7fff;
    } else if (size >= 65520) {
      bits = sign | 0x7c00;
    } else if (size < 0x1p-14f) {  // denormal: whole numbers of 2^-24
      bits = static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24f)));
    } else {
      const auto whole = std::bit_cast<uint32_t>(size) - (112u << 23);
      bits = static_cast<uint16_t>(sign | (whole + 0xfff + (whole >> 13 & 1)) >> 13);
    }
  }
  operator float() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size =
        exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
        : exponent == 0
            ? static_cast<float>(fraction) * 0x1p-24f
            : std::bit_cast<float>((exponent + 112u) << 23 | static_cast<unsigned>(fraction) << 13);
    return bits >> 15 != 0 ? -size : size;
  }
};
struct __half2 {
  __half x, y;
};
inline __half2 __floats2half2_rn(float x, float y) {
  return {x, y};
}
inline float2 __half22float2(__half2 both) {
  return {both.x, both.y};
}

#include "tests/emulation/matrices.h"

#include <bit>
#include <cstring>

#include "tests/emulation/block.h"

namespace longbow::emulation {
namespace {

float of_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
// With the exponent of a float; the second factor makes denormals what they are.
float of_half(uint16_t bits) {
  const uint32_t size = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  const float finite = std::bit_cast<float>(size) * 0x1p112f;
  const uint32_t special = size >= 31u << 23 ? 255u << 23 : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(finite) | special | sign);
}

using Row = float __attribute__((vector_size(32)));

template <float widen(uint16_t)>
inline __attribute__((always_inline)) void multiply(const Lanes& lanes) {
  float right[16][8], left[16][16];
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 2; ++i) {
      const uint32_t two = lanes.given<Factors>(lane).b[i];
      const int row = lane % 4 * 2 + i * 8;
      right[row][lane / 4] = widen(static_cast<uint16_t>(two));
      right[row + 1][lane / 4] = widen(static_cast<uint16_t>(two >> 16));
    }
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      const uint32_t two = lanes.given<Factors>(lane).a[i];
      float* const to = &left[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8];
      to[0] = widen(static_cast<uint16_t>(two));
      to[1] = widen(static_cast<uint16_t>(two >> 16));
    }
  float product[16][8];
  for (int first = 0; first < 16; first += 8) {
    Row sums[8] = {};
    for (int k = 0; k < 16; ++k) {
      Row row;
      std::memcpy(&row, right[k], sizeof(row));
      for (int m = 0; m < 8; ++m) sums[m] += left[first + m][k] * row;
    }
    std::memcpy(product[first], sums, sizeof(sums));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float* const c = lanes.given<Factors>(lane).c;
    for (int i = 0; i < 4; ++i) c[i] += product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

#define LONGBOW_CLONES __attribute__((target_clones("default", "avx2")))
LONGBOW_CLONES void run_bfloat16(const Lanes& lanes) {
  multiply<of_bfloat16>(lanes);
}
LONGBOW_CLONES void run_half(const Lanes& lanes) {
  multiply<of_half>(lanes);
}
LONGBOW_CLONES void run_tf32(const Lanes& lanes) {
  const auto widen = [](uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); };
  float right[8][8], left[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& given = lanes.given<Factors>(lane);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; ++i) right[t + i * 4][g] = widen(given.b[i]);
    for (int i = 0; i < 4; ++i) left[g + i % 2 * 8][t + i / 2 * 4] = widen(given.a[i]);
  }
  float product[16][8] = {};
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 8; ++k)
      for (int n = 0; n < 8; ++n) product[m][n] += left[m][k] * right[k][n];
  for (int lane = 0; lane < kLanes; ++lane) {
    float* const c = lanes.given<Factors>(lane).c;
    for (int i = 0; i < 4; ++i) c[i] += product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace

void multiply_bfloat16(const Lanes& lanes) {
  check_warp(lanes);
  run_bfloat16(lanes);
}

void multiply_half(const Lanes& lanes) {
  check_warp(lanes);
  run_half(lanes);
}

void multiply_tf32(const Lanes& lanes) {
  check_warp(lanes);
  run_tf32(lanes);
}

}  // namespace longbow::emulation

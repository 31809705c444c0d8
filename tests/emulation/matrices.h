#pragma once
#include <cstdint>

#include "tests/emulation/block.h"

namespace longbow::emulation {

// What a lane holds of the tiles of a product; longbow/kernels/cuda/mma.h says which numbers.
struct Factors {
  const uint32_t *a, *b;
  float* c;
};
// Sums of 16 products in float32, added to c.
void multiply_bfloat16(const Lanes& lanes);
void multiply_half(const Lanes& lanes);
// Sums of 8 products of float32 numbers without their lower 13 bits.
void multiply_tf32(const Lanes& lanes);

}  // namespace longbow::emulation

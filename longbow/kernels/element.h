#pragma once
#include <cstdint>

namespace longbow::kernels {

// What the numbers of a tensor are, where a kernel takes several types.
enum class Element { float64, float32, bfloat16, float16 };

// A number that a kernel on a CPU reads as it is: the upper half of a float32.
struct Bfloat16 {
  uint16_t bits;
};

}  // namespace longbow::kernels

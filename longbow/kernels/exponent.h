#pragma once

namespace longbow::kernels {

// e^x = 2^(x kLog2E), and the natural logarithm is kLn2 times that to base 2.
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.69314718055994531f;

}  // namespace longbow::kernels

#pragma once

namespace longbow::kernels {

// What the numbers of a tensor are, where a kernel takes several types.
enum class Element { float64, float32, bfloat16, float16 };

}  // namespace longbow::kernels

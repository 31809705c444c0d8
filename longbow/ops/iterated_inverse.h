#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// The pseudo-inverse of a by an iteration of third order (Razavi et al., 2014), which begins with z
// and is done `steps` times:
//   Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4.
// a, z [..., R, R] in float32 or float64. By kernels on a CPU, a matrix at a time, and on a GPU in
// float32 for R up to 64; twice differentiable.
at::Tensor iterated_inverse(const at::Tensor& a, const at::Tensor& z, int64_t steps);

// The same by ATen alone, on any device.
at::Tensor iterated_inverse_formula(const at::Tensor& a, const at::Tensor& z, int64_t steps);

}  // namespace longbow

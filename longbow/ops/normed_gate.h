#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// y = (norm(x silu(gate)) + norm(other silu(gate))) weight,   norm(u) = u / sqrt(mean u^2 +
// epsilon), of each of `groups` equal parts of the channels by itself. x, other, gate [..., W];
// weight [W]; other may be undefined, and is then left out. In float32 at least, rounded once.
at::Tensor normed_gate(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                       const at::Tensor& weight, int64_t groups, double epsilon);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_normed_gate_kernel(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                            int64_t groups);

// The same by ATen alone. The kernel is tested against it.
at::Tensor normed_gate_formula(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                               const at::Tensor& weight, int64_t groups, double epsilon);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// y = (norm(x) + norm(other)) weight silu(gate),   norm(x) = x / sqrt(mean x^2 + epsilon),
// where each D = weight.size(0) channels beside each other are normed by themselves. x, other and
// gate are [..., W] for a multiple W of D; other and gate may be undefined, and are then left out.
// In float32 at least, rounded once.
at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                      const at::Tensor& weight, double epsilon);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_gated_norm_kernel(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                           const at::Tensor& weight);

// The same by ATen alone. The kernel is tested against it.
at::Tensor gated_norm_formula(const at::Tensor& x, const at::Tensor& other, const at::Tensor& gate,
                              const at::Tensor& weight, double epsilon);

}  // namespace longbow

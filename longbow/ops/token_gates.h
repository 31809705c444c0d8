#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x silu(gate), number by number: x and gate [..., W].
at::Tensor silu_product(const at::Tensor& x, const at::Tensor& gate);

// sigmoid(update) (silu(candidate + added) - x): what a gate adds to x where it lets the candidate
// in. All are [..., W].
at::Tensor gated_step(const at::Tensor& x, const at::Tensor& update, const at::Tensor& candidate,
                      const at::Tensor& added);

// Whether a GPU has kernels for them, of one pass each: in half types, which are rounded once;
// otherwise they run the formulas. Kernels have no second derivative.
bool has_gate_kernel(const at::Tensor& x);

// The same by ATen alone. The kernels are tested against it.
at::Tensor silu_product_formula(const at::Tensor& x, const at::Tensor& gate);
at::Tensor gated_step_formula(const at::Tensor& x, const at::Tensor& update,
                              const at::Tensor& candidate, const at::Tensor& added);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// ln sigmoid(logit) / divisor, in float32 at least.
at::Tensor log_gate(const at::Tensor& logit, double divisor);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_log_gate_kernel(const at::Tensor& logit);

// The same by ATen alone. The kernel is tested against it.
at::Tensor log_gate_formula(const at::Tensor& logit, double divisor);

}  // namespace longbow

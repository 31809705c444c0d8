#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// y = norm((o + skip x) silu(gate)) weight,   norm(u) = u / sqrt(mean u^2 + epsilon),
// of each of `groups` equal parts of the channels by itself. o, x, gate [..., W]; skip, weight [W].
// In float32 at least, rounded once.
at::Tensor skip_norm(const at::Tensor& o, const at::Tensor& x, const at::Tensor& skip,
                     const at::Tensor& gate, const at::Tensor& weight, int64_t groups,
                     double epsilon);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_skip_norm_kernel(const at::Tensor& o, const at::Tensor& x, const at::Tensor& gate,
                          int64_t groups);

// The same by ATen alone. The kernel is tested against it.
at::Tensor skip_norm_formula(const at::Tensor& o, const at::Tensor& x, const at::Tensor& skip,
                             const at::Tensor& gate, const at::Tensor& weight, int64_t groups,
                             double epsilon);

}  // namespace longbow

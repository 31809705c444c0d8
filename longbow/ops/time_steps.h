#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Steps in time that tokens set for each head, and the logarithm of what is left after them:
//   step = min(max(softplus(dt + b), least), most),   log_decay = -exp(a) step,
// both 0 for tokens that are not kept. dt [B, N, H]; b = bias and a = log_rate [H]; keep [B, N],
// undefined = all. Returns float32 at least.
struct TimeStepping {
  at::Tensor step, log_decay;
};
TimeStepping time_steps(const at::Tensor& dt, const at::Tensor& bias, const at::Tensor& log_rate,
                        const at::Tensor& keep, double least, double most);

// Whether a GPU has kernels for it; otherwise it runs the formula. Kernels have no second
// derivative.
bool has_time_steps_kernel(const at::Tensor& dt);

// The same by ATen alone. The kernel is tested against it.
TimeStepping time_steps_formula(const at::Tensor& dt, const at::Tensor& bias,
                                const at::Tensor& log_rate, const at::Tensor& keep, double least,
                                double most);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// gain x / sqrt(mean x^2 + epsilon) sigmoid(gate x) over the last dimension; without the sigmoid
// where the gate is undefined. x [..., C] in float32 or float64, gain and gate [C]; the result has
// type `type`, its gradient too.
at::Tensor rms_gate(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& gate,
                    double epsilon, at::ScalarType type);

// The same by ATen alone, and the gradients of x, gain and gate.
at::Tensor rms_gate_formula(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& gate,
                            double epsilon);
struct RmsGateGradients {
  at::Tensor x, gain, gate;
};
RmsGateGradients rms_gate_formula_backward(const at::Tensor& dy, const at::Tensor& x,
                                           const at::Tensor& gain, const at::Tensor& gate,
                                           double epsilon);

// Whether kernels do it in one pass over x: on a GPU in float32, for a multiple of 4 up to 1024
// channels.
bool has_rms_gate_kernel(const at::Tensor& x);

}  // namespace longbow

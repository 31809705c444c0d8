#pragma once
#include "longbow/ops/perceptron_formula.h"

namespace longbow {

// The layer in one call.
at::Tensor perceptron(const at::Tensor& x, const PerceptronLayer& layer);

// Whether kernels do it that write no unit to memory: on a GPU in float32, where C and E are
// multiples of 4 up to 128, F is one of 4 up to 128 or one of 128, and f is gelu or relu. There x
// is all that is kept for the backward pass, and there is no second derivative.
bool has_perceptron_kernel(const at::Tensor& x, const PerceptronLayer& layer);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// The sum over all dimensions but the last, in the type of x: the gradient of a bias. Half types
// are accumulated in float32. Differentiable any number of times.
at::Tensor row_sum(const at::Tensor& x);

}  // namespace longbow

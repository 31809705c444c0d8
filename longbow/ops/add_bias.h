#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// x + bias for x [..., W] and bias [W], whose gradient is a row_sum: one pass over x where
// LibTorch's sum of many short rows in a half type takes several times as long.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);

}  // namespace longbow

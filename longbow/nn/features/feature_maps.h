#pragma once
// Positive feature maps of linear attention that keep their relative precision and their range.
#include <ATen/core/Tensor.h>

namespace longbow {

// elu(x) + 1: x + 1 above zero and exp(x) below. The sum elu(x) + 1 would cancel there: in bfloat16
// it is 0 from x = -6.3 on.
at::Tensor elu_plus_one(const at::Tensor& x);

// tanh(x) + 1 = 2 sigmoid(2 x), without that cancellation.
at::Tensor tanh_plus_one(const at::Tensor& x);

// exp(min(x, 35)): a sum of 1e8 products of two such features is finite in float32. A larger x
// counts as 35 and has no gradient.
at::Tensor bounded_exp(const at::Tensor& x);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// A softmax over the last dimension of quotients, divided once more: softmax(scale scores / n) / n
// with n = max(divisor, least). scores [B, H, N, R]; divisor broadcasts to them, or is undefined: n
// = 1. In the type of the scores; sums are float32 at least. Twice differentiable.
at::Tensor divided_softmax(const at::Tensor& scores, const at::Tensor& divisor, double least,
                           double scale = 1);

// The same by ATen alone, on any device. The kernel is tested against it.
at::Tensor divided_softmax_formula(const at::Tensor& scores, const at::Tensor& divisor,
                                   double least, double scale = 1);

}  // namespace longbow

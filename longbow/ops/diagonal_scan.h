#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// The states of a diagonal linear system at all positions, x_t = exp(rate) x_{t-1} + b_t with x
// zero before the first: b [B, N, P], rate [P], complex or real, Re rate <= 0. A later b has no
// influence, bit for bit. Within chunks it is a product with a matrix of decays; the states at the
// ends of chunks are again such a system, so that there are O(log N) steps and O(N P) numbers.
at::Tensor diagonal_scan(const at::Tensor& b, const at::Tensor& rate);

}  // namespace longbow

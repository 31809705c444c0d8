#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace longbow {

// The states of a diagonal linear system at all positions, x_t = exp(rate) x_{t-1} + b_t with x
// zero before the first; reversed, x_t = exp(rate) x_{t+1} + b_t with x zero after the last.
// b [B, N, P] and rate [P] are complex, Re rate <= 0. A later b (reversed, an earlier one) has no
// influence, bit for bit. Differentiable any number of times.
at::Tensor diagonal_scan(const at::Tensor& b, const at::Tensor& rate, bool reversed = false);

// The same by ATen alone, on any device. Within chunks it is a product with a matrix of decays; the
// states at the ends of chunks are again such a system, so that there are O(log N) steps and O(N P)
// numbers. The kernels are tested against it.
at::Tensor diagonal_scan_formula(const at::Tensor& b, const at::Tensor& rate,
                                 bool reversed = false);
// The gradients of b and of the rate from that of the states; its scan is the operator again.
std::tuple<at::Tensor, at::Tensor> diagonal_scan_gradients_formula(const at::Tensor& gradient,
                                                                   const at::Tensor& states,
                                                                   const at::Tensor& rate,
                                                                   bool reversed);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// All states of the recurrence S_i = a_i S_{i-1} + b_i, i = 1..k, along dimension -3, in O(log k)
// operators and O(k) work: pairs of steps are one step of a recurrence of half the length.
// added b [..., k, p, q], first S_0 [..., p, q]; returns S_0 .. S_k, [..., k + 1, p, q].
// The factors a multiply the elements of a state, broadcast to [..., k, p, q],
at::Tensor decay_scan(const at::Tensor& factors, const at::Tensor& added, const at::Tensor& first);
// or they are matrices [..., k, p, p].
at::Tensor matrix_scan(const at::Tensor& factors, const at::Tensor& added, const at::Tensor& first);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace longbow {

// Queries, keys or the like that are scaled copies of one gate: y_r = silu(z) gain_r + offset_r.
// z [B, N, W], gain and offset [R, W] -> R tensors [B, N, W].
std::vector<at::Tensor> silu_heads(const at::Tensor& z, const at::Tensor& gain,
                                   const at::Tensor& offset);

// The same in ATen alone, and the gradients of z, gain and offset.
std::vector<at::Tensor> silu_heads_formula(const at::Tensor& z, const at::Tensor& gain,
                                           const at::Tensor& offset);
std::tuple<at::Tensor, at::Tensor, at::Tensor> silu_heads_formula_backward(at::TensorList dy,
                                                                           const at::Tensor& z,
                                                                           const at::Tensor& gain);

}  // namespace longbow

#pragma once
// running_mean by ATen alone: the definition, on any device.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

// The result, and sums before each chunk of tokens in a form of the device's own.
std::tuple<at::Tensor, at::Tensor> running_mean_formula(const at::Tensor& gate, const at::Tensor& k,
                                                        const at::Tensor& v,
                                                        const std::optional<at::Tensor>& keep);
// The gradients of gate, k and v.
std::tuple<at::Tensor, at::Tensor, at::Tensor> running_mean_backward_formula(
    const at::Tensor& gradient, const at::Tensor& gate, const at::Tensor& k, const at::Tensor& v,
    const std::optional<at::Tensor>& keep, const at::Tensor& sums);

}  // namespace longbow

#pragma once
// channel_mean by ATen alone: the definition, on any device.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

// Mean and logarithm of the sum of weights, [B, C] each; infinity where no token is kept.
std::tuple<at::Tensor, at::Tensor> channel_mean_formula(const at::Tensor& k, const at::Tensor& v,
                                                        const std::optional<at::Tensor>& keep);
// dk, dv.
std::tuple<at::Tensor, at::Tensor> channel_mean_backward_formula(
    const at::Tensor& gradient, const at::Tensor& k, const at::Tensor& v,
    const std::optional<at::Tensor>& keep, const at::Tensor& mean, const at::Tensor& log_sum);

}  // namespace longbow

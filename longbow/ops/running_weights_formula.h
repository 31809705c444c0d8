#pragma once
// Registrations of running_weights, with arguments as the dispatcher gives them.
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace longbow {

// The weights and their sums, by ATen alone. The kernel is tested against it.
std::tuple<at::Tensor, at::Tensor> running_weights_formula(const at::Tensor& logits,
                                                           const std::optional<at::Tensor>& keep,
                                                           double clip);
// dlogits; dweights and dagain add up to the gradient of the weights.
at::Tensor running_weights_backward_formula(const at::Tensor& dweights, const at::Tensor& dagain,
                                            const at::Tensor& dsums, const at::Tensor& logits,
                                            const std::optional<at::Tensor>& keep, double clip);

}  // namespace longbow

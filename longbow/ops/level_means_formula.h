#pragma once
// level_means by ATen alone: the definition, on any device.
#include <ATen/core/Tensor.h>

#include <optional>

namespace longbow {

at::Tensor level_means_formula(const at::Tensor& x, const std::optional<at::Tensor>& keep,
                               const at::Tensor& factors, at::IntArrayRef rows);
// The gradient of x.
at::Tensor level_means_formula_backward(const at::Tensor& g, const at::Tensor& x,
                                        const std::optional<at::Tensor>& keep,
                                        const at::Tensor& factors, at::IntArrayRef rows);

}  // namespace longbow

#pragma once
// group_softmax_ by ATen alone: arguments as the dispatcher gives them.
#include <ATen/core/Tensor.h>

#include <optional>

namespace longbow {

// window: site, rows, row.
void group_softmax_by_aten(at::Tensor& scores, const std::optional<at::Tensor>& gradient,
                           int64_t group, const std::optional<at::Tensor>& key,
                           at::IntArrayRef window, double rate);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace longbow {

// The columns of x [..., W] in parts, first those of widths[0], and so on: views. Where the
// gradients of all parts lie beside each other in memory, that of x is what they lie in; otherwise
// they are put beside each other.
std::vector<at::Tensor> row_parts(const at::Tensor& x, at::IntArrayRef widths);

// Parts [..., W] that lie beside each other become one, without a copy.
std::vector<at::Tensor> joined_parts(const std::vector<at::Tensor>& parts);

}  // namespace longbow

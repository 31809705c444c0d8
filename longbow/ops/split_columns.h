#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace longbow {

// The columns of x [..., W], first those of widths[0], and so on: views. Their gradients are put
// beside each other again; where they lie so in memory already, nothing is copied.
std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths);

}  // namespace longbow

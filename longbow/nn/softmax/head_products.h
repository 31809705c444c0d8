#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

using at::Tensor;

// The rows of each head times a matrix of its own, plus `added` [H, 1, R] unless that is undefined:
// q [B, H, ..., N, D], weight [H, D, R] -> [B, H, ..., N, R]. On a GPU rows of all sequences, as
// projections make them, are one product and are not copied, nor are their gradients.
Tensor head_products(const Tensor& q, const Tensor& weight, const Tensor& added = {});

}  // namespace longbow

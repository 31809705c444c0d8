#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Buckets of vectors by their products y [..., C] with random directions, which are cut into
// factors: bucket = sum_f (argmax over [y_f; -y_f]) times the product of the factors before f. A
// factor has factor / 2 directions, C in all. [...] int64, without a gradient.
at::Tensor turned_buckets(const at::Tensor& y, at::IntArrayRef factors);

at::Tensor turned_buckets_formula(const at::Tensor& y, at::IntArrayRef factors);

}  // namespace longbow

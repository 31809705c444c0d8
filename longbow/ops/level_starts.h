#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// The first of 2, 4, 8, … tokens that follow each other, one level after another, as level_means
// has their means: row c of level l, counted from 1, is token c 2^l, and there are zeros behind the
// last one. x [B, H, N, D], rows of each level, T in all -> [B, H, T, D].
at::Tensor level_starts(const at::Tensor& x, at::IntArrayRef rows);

// The same in ATen alone, and the gradient of x, which has so many tokens.
at::Tensor level_starts_formula(const at::Tensor& x, at::IntArrayRef rows);
at::Tensor level_starts_formula_backward(const at::Tensor& g, int64_t tokens, at::IntArrayRef rows);

}  // namespace longbow

#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace longbow {

// Means over 2, 4, 8, … tokens that follow each other, one level after another. Row c of level l,
// counted from 1, is factor_c sum_i real_i x_i over the tokens i = c 2^l, …, c 2^l + 2^l - 1; each
// level has ceil(N / 2^l) such rows, and zeros behind them. x [B, H, N, D], keep [B, N] bool
// (undefined: all are real), factors [1 or B, T] float32 at least, which are 1 / count for means;
// rows of each level, T in all -> [B, H, T, D]. Sums are float32 at least.
at::Tensor level_means(const at::Tensor& x, const at::Tensor& keep, const at::Tensor& factors,
                       const std::vector<int64_t>& rows);

}  // namespace longbow

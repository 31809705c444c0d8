#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// A softmax over the tokens in every channel, and the mean that it weighs: mean_c = sum_n
// softmax_n(k_nc) v_nc over the tokens that are kept; zero where none is. k [B, N, C / G], where G
// channels of v share one of k; v [B, N, C]; keep [B, N] bool or undefined. The result is [B, C] in
// float32 at least. Only the arguments, the mean and the logarithms of the sums are kept for the
// backward pass.
at::Tensor channel_mean(const at::Tensor& k, const at::Tensor& v, const at::Tensor& keep = {});

}  // namespace longbow

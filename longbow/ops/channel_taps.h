#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace longbow {

// u_t = b + sum_j a_j z_{t + j - left}, channel by channel, or silu(u): z [B, N, C], zero outside
// the sequence, taps [C, K], bias [C] or undefined, 0 <= left < K. By kernels on a CPU, in float32
// or float64; twice differentiable.
enum class TapsOutput { sum, silu };
at::Tensor channel_taps(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                        int64_t left, TapsOutput output = TapsOutput::sum);

// Whether the kernels take these.
bool has_channel_taps(const at::Tensor& z, const at::Tensor& taps);

}  // namespace longbow

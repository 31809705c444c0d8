#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

namespace longbow {

// u_t = b + sum_j a_j z_{t + j - left}, channel by channel, or silu(u): z [B, N, C], zero outside
// the sequence, taps [C, K], bias [C] or undefined, 0 <= left < K. Where the tokens are an image
// with `columns` pixels in a row, the last of which may be cut short, taps are [C, K, K] with K odd
// and left = K / 2, for rows and columns. All of one type, sums in float32 at least; twice
// differentiable.
enum class TapsOutput { sum, silu };
at::Tensor channel_taps(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                        int64_t left, TapsOutput output = TapsOutput::sum, int64_t columns = 0);

// Whether there are kernels for these; otherwise it runs the formula. On a CPU for sequences, in
// float32 or float64; on a GPU for up to 16 taps, or 7 x 7, of whole 16 bytes of channels.
bool has_channel_taps(const at::Tensor& z, const at::Tensor& taps);

// The same by ATen alone, and the gradients of z, taps and bias.
at::Tensor channel_taps_formula(const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
                                int64_t left, TapsOutput output, int64_t columns);
std::tuple<at::Tensor, at::Tensor, at::Tensor> channel_taps_formula_backward(
    const at::Tensor& dy, const at::Tensor& z, const at::Tensor& taps, const at::Tensor& bias,
    int64_t left, TapsOutput output, int64_t columns);

}  // namespace longbow

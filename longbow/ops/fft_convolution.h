#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Which lag the first row of a kernel over later tokens stands for: that of the token itself, which
// then counts in both kernels, or that of the token after it.
enum class FirstLag { zero, one };

// A convolution over all tokens, channel by channel, by Fourier transforms in O(N log N):
//   y_t = sum_{l >= 0} past_l u_{t - l} + sum_{l >= f} ahead_{l - f} u_{t + l},
// where u is zero outside of the sequence and f is the first lag. u [..., N, C], past and ahead
// [..., L, C or 1], which broadcast; rows beyond N have no influence, and an undefined kernel is
// zero. The result is float32 at least, whatever the types are. A token that a kernel does not read
// has no influence but that of rounding.
at::Tensor fft_convolution(const at::Tensor& u, const at::Tensor& past,
                           const at::Tensor& ahead = {}, FirstLag first = FirstLag::one);

// The least of 2^a, 3 2^a and 5 2^a that is not less: sizes of fast transforms.
int64_t fft_size(int64_t least);

}  // namespace longbow

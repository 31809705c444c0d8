#pragma once
// A convolution over the tokens, channel by channel, with K taps:
//   y_t = sum_j a_j z_{t + j - left},   z is zero outside the sequence.
// Taps are the same for all tokens, [H, K], or each token has its own, [B or 1, H, N, K]. Channel c
// belongs to head c div (L / H). The sums are in the type of the taps.
#include "longbow/nn/contract/mixer.h"

namespace longbow {

// z [B, N, L]; left = K - 1 looks back only.
Tensor windowed_taps(const Tensor& z, const Tensor& taps, int64_t left);
// The same where K - 1 rows already stand around the tokens: rows [B, K - 1 + N, L] -> [B, N, L].
Tensor taps_over(const Tensor& rows, const Tensor& taps);

}  // namespace longbow

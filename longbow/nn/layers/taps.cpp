#include "longbow/nn/layers/taps.h"

#include <ATen/ATen.h>

#include "longbow/ops/channel_taps.h"
#include "longbow/ops/token_taps.h"

namespace longbow {
namespace {

// By blocks of T tokens: within a block it is a product with a band matrix [T, T + K - 1], the same
// for all channels of a head.
Tensor banded_product(const Tensor& rows, const Tensor& taps) {
  constexpr int64_t kLeast = 16;
  const int64_t n = taps.size(2), k = taps.size(3), block = std::min(n, std::max(k, kLeast));
  const int64_t blocks = (n + block - 1) / block, missing = blocks * block - n,
                span = block + k - 1;
  // Rows of length T + K, read as rows of length T + K - 1: each begins one column further right.
  const auto band = at::constant_pad_nd(taps, {0, block, 0, missing})
                        .unflatten(2, {blocks, block})
                        .flatten(-2)
                        .narrow(-1, 0, block * span)
                        .unflatten(-1, {block, span});  // [B, H, N/T, T, T + K - 1]
  const auto windows = split_heads(at::constant_pad_nd(rows, {0, 0, 0, missing}), taps.size(1))
                           .unfold(2, span, block);  // [B, H, N/T, L/H, T + K - 1]
  return merge_heads(band.matmul(windows.transpose(-2, -1)).flatten(2, 3).narrow(2, 0, n));
}

// Channels stay innermost: an image of one row. cuDNN's kernels for that order are several times as
// fast as those for transposed rows.
Tensor depthwise_product(const Tensor& rows, const Tensor& taps) {
  const int64_t channels = rows.size(2);
  const auto kernel = taps.repeat_interleave(channels / taps.size(0), 0).unsqueeze(1).unsqueeze(1);
  return at::conv2d(rows.unsqueeze(1).permute({0, 3, 1, 2}), kernel, {}, 1, at::IntArrayRef(0), 1,
                    channels)
      .permute({0, 2, 3, 1})
      .squeeze(1);
}

}  // namespace

Tensor taps_over(const Tensor& rows, const Tensor& taps) {
  const auto typed = rows.to(taps.scalar_type());
  return taps.dim() == 2 ? depthwise_product(typed, taps) : banded_product(typed, taps);
}

Tensor windowed_taps(const Tensor& z, const Tensor& taps, int64_t left) {
  if (taps.dim() == 4) {
    const auto own = taps.expand({z.size(0), -1, -1, -1});
    if (has_token_taps_kernel(z, own)) return token_taps(z, own, left);
  }
  if (taps.dim() == 2 && has_channel_taps(z, taps) && left >= 0 && left < taps.size(1))
    return channel_taps(z, taps.repeat_interleave(z.size(2) / taps.size(0), 0), {}, left);
  // Taps that fall outside of a short sequence for all tokens are left out.
  const int64_t most = z.size(1) - 1;
  const int64_t back = std::min(left, most), ahead = std::min(taps.size(-1) - 1 - left, most);
  return taps_over(at::constant_pad_nd(z, {0, 0, back, ahead}),
                   taps.narrow(-1, left - back, back + 1 + ahead));
}

}  // namespace longbow

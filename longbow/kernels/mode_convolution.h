#pragma once
// Diagonal linear systems, n complex modes for each channel, over all tokens:
//   y_t = skip u_t + Re sum_n w_n sum_{l >= 0} e^{r_n l} u_{t - l},
// and the same over later tokens with modes of their own, l >= f there with e^{r_n (l - f)}, f = 0
// or 1. Tokens are taken in chunks of 64, and chunks in segments of 16: within a chunk the lags are
// the taps of a convolution; beyond it the modes carry what they have gathered.
#include <cstdint>

#include "longbow/kernels/channel_rows.h"

namespace longbow::kernels {

constexpr int kModeTaps = 2 * kChannelChunk;

enum class ModeActivation { none, gelu, silu };

struct ModeConvolution {
  const float *rate, *weight;  // [D, C, n, 2], D = 1 or 2: over earlier tokens, over later ones
  const float* skip;           // [C]
  float* table;           // [D, C, n8, 8]: e^r, e^64r, e^1024r, w; n8 is n rounded up to eights
  float* taps;            // [C, 128]: lag l is number 64 + l
  float* starts;          // [B, S, D, C, n8, 2]: modes before each segment; null if S = 1
  ChannelRows u, y, out;  // [B, N, C]; out is y after the activation, y may be null
  ModeActivation activation;
  int64_t batch, tokens, channels, modes, directions, first;
  int64_t segments, eights;  // of tokens, of modes
};

// `past` is as the forward pass left it; y and out are not read.
struct ModeConvolutionBackward {
  ModeConvolution past;
  ChannelRows dy, du;
  float* ends;  // as starts, of dy and from the other side; null if S = 1
  float* sums;  // [B, S, D, C, n8, 4]: dw and dr / w as far as the modes carry
  float* lags;  // [B, S, C, 128]: the taps' gradients
  float *drate, *dweight, *dskip;
};

void mode_convolution_cuda(const ModeConvolution& task, void* stream) noexcept;
// Writes `ends`, before the next.
void mode_ends_cuda(const ModeConvolutionBackward& task, void* stream) noexcept;
void mode_convolution_backward_cuda(const ModeConvolutionBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

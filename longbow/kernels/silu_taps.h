#pragma once
// ops/silu_taps.h over rows of bfloat16. A thread has 4 channels and walks over a span of tokens
// with the last few of them in registers, while the next one arrives. Tokens may run backwards,
// with negative strides.
#include <cstdint>

#include "longbow/kernels/token_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostTaps = 4, kTapSpan = 64;
constexpr float kUnitEpsilon = 1e-6f;

// Whether parts of this width may be of length 1: those of 1, 2, 4, ... threads of a warp.
constexpr bool unit_fits(int64_t width) noexcept {
  return width >= 4 && width <= 128 && (width & (width - 1)) == 0;
}

struct SiluTaps {
  TokenRows<> z;
  const float *taps, *bias;  // [K, channels], [channels]
  TokenRows<> y;
  int64_t batch, tokens, channels, count;  // K
  int64_t unit_channels, unit_width;       // of length 1: the first ones, in parts; 0 = none
  int64_t spans() const { return (tokens + kTapSpan - 1) / kTapSpan; }
};

struct SiluTapsBackward {
  SiluTaps past;  // y is not read
  TokenRows<> dy, dz;
  float* sums;  // [B, spans, K + 1, channels]: of dtaps and, last, of dbias
};

// From the first token to the last, as the task says, and from the last to the first.
struct SiluTapsBoth {
  SiluTaps forth;
  TokenRows<> back;
};

struct SiluTapsBothBackward {
  SiluTaps past;  // y is not read
  TokenRows<> dforth, dback, dz;
  float* sums;  // as those of one direction
};

void silu_taps_both_cuda(const SiluTapsBoth& task, void* stream) noexcept;
void silu_taps_both_backward_cuda(const SiluTapsBothBackward& task, void* stream) noexcept;
void silu_taps_cuda(const SiluTaps& task, void* stream) noexcept;
void silu_taps_backward_cuda(const SiluTapsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// ops/silu_taps.h over rows of bfloat16. A thread has 8 channels and walks over a span of tokens
// with the last few of them in registers. Tokens may run backwards, with negative strides.
#include <cstdint>

namespace longbow::kernels {

constexpr int64_t kMostTaps = 4, kTapSpan = 64;

struct TokenRows {
  void* data = nullptr;
  int64_t batch = 0, token = 0;  // strides in elements
};

struct SiluTaps {
  TokenRows z;
  const float *taps, *bias;  // [K, channels], [channels]
  TokenRows y;
  int64_t batch, tokens, channels, count;  // K
  int64_t spans() const { return (tokens + kTapSpan - 1) / kTapSpan; }
};

struct SiluTapsBackward {
  SiluTaps past;  // y is not read
  TokenRows dy, dz;
  float* sums;  // [B, spans, K + 1, channels]: of dtaps and, last, of dbias
};

void silu_taps_cuda(const SiluTaps& task, void* stream) noexcept;
void silu_taps_backward_cuda(const SiluTapsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

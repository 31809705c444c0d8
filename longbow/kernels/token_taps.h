#pragma once
// A sum over neighbours with weights that each token has of its own; ops/token_taps.h defines it.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct TokenTaps {
  Element type;                      // of z
  int64_t batch, tokens, channels;   // B, N, L: a multiple of 8
  int64_t heads, taps, left;         // H, K
  const void* z;                     // [B, N, L]
  int64_t z_batch, z_token;          // strides in elements
  const float* a;                    // [B, H, N, K]
  int64_t a_batch, a_head, a_token;  // strides
  float* out;                        // [B, N, L]
};

struct TokenTapsBackward {
  TokenTaps past;
  const float* dout;  // [B, N, L]
  void* dz;           // [B, N, L]
  float* da;          // [B, N, H, K]
};

// Whether a warp can add up the channels of a head: a power of two from 8 to 256 of them.
constexpr bool token_taps_fit(int64_t channels, int64_t heads) {
  const int64_t each = heads > 0 && channels % heads == 0 ? channels / heads : 0;
  return each >= 8 && each <= 256 && (each & (each - 1)) == 0;
}

void token_taps_cuda(const TokenTaps& task, void* stream) noexcept;
void token_taps_backward_cuda(const TokenTapsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

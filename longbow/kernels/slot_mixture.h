#pragma once
// What tokens read from few slots of several heads, added up; ops/slot_mixture.h defines it. All
// numbers are float32.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostMixedWidth = 128, kMostMixedSlots = 256;

struct SlotMixture {
  int64_t batch, lanes;          // B sequences, L rows of tokens in each
  int64_t heads, tokens, slots;  // H for each row of tokens, N, R
  int64_t width, value_width;    // C and E, multiples of 4
  HeadRows x;                    // [B, L, N, C]
  const float *keys, *values;    // [B, L, H, R, C], [B, L, H, R, E]
  const float* bias;             // [B, L, H, R], or null
  const float* offset;           // [E], with which the sums begin, or null
  const int64_t* key;            // [2], or null: no weight is dropped; else R % 4 = 0
  uint64_t site;
  double rate;
  int64_t span;     // tokens of a thread block: mixture_span
  HeadResults out;  // [B, L, N, E]
  float* log_sum;   // [B, L, H, N], of softmaxes; infinity where a token sees no slot
};

struct SlotMixtureBackward {
  SlotMixture past;
  HeadRows dout;
  HeadResults dx;
  // For each span of tokens, one after the other: the gradients of keys, values and biases.
  float* sums;     // [spans, stride]
  int64_t stride;  // a multiple of 4, at least B L H R (C + E + 1)
};

// Slots and numbers of a row as kernels lay them out, and tokens that the backward pass reads at
// once.
constexpr int64_t mixed_width(int64_t width) {
  return width <= 64 ? 64 : 128;
}
constexpr int64_t mixed_slots(int64_t slots) {
  return slots <= 64 ? 64 : slots <= 128 ? 128 : 256;
}
constexpr int64_t mixed_tokens(int64_t slots, int64_t width) {
  return mixed_width(width) == 64 && mixed_slots(slots) == 128 ? 64 : 32;
}
// Bytes of memory that a thread block of the backward pass needs, the forward pass less; 0 where
// there is no kernel.
constexpr int64_t mixture_memory(int64_t slots, int64_t width) {
  if (slots > kMostMixedSlots || width > kMostMixedWidth || (width > 64 && slots > 128)) return 0;
  const int64_t r = mixed_slots(slots), c = mixed_width(width), n = mixed_tokens(slots, width);
  return static_cast<int64_t>(sizeof(float)) * (2 * r * c + 4 * n * c + n * (r + r / 16 + 1));
}
// Tokens of a thread block, a multiple of 64: what the multiprocessors of a large GPU share evenly.
inline int64_t mixture_span(int64_t rows, int64_t tokens) {
  constexpr int64_t kProcessors = 132, kTile = 64, kMostRounds = 4;
  const int64_t tiles = (tokens + kTile - 1) / kTile;
  int64_t best = 1, least = (rows + kProcessors - 1) / kProcessors * tiles;
  for (int64_t rounds = 1; rounds <= kMostRounds; ++rounds) {
    const int64_t spans = rounds * kProcessors / rows;
    if (spans < 1) continue;
    const int64_t longest = (tiles + spans - 1) / spans * rounds;  // tiles of one multiprocessor
    if (longest >= least) continue;
    least = longest;
    best = spans;
  }
  return (tiles + best - 1) / best * kTile;
}

void slot_mixture_cuda(const SlotMixture& task, void* stream) noexcept;
void slot_mixture_backward_cuda(const SlotMixtureBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

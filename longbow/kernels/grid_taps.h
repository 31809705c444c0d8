#pragma once
// ops/channel_taps.h on a GPU: taps around the pixels of an image, row by row, or the tokens of a
// sequence, which is an image of one row.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

constexpr int64_t kMostImageTaps = 7, kMostSequenceTaps = 16;

// Bytes of memory that the kernels need for a block of threads: four stages of rows of two tensors
// for 64 channels, with their neighbours, and the taps.
constexpr int64_t grid_taps_memory(int64_t tall, int64_t wide, int64_t bytes_of_number) noexcept {
  constexpr int64_t kStages = 4, kChannels = 64, kWarps = 8, kTableLine = 4 * (kChannels + 1);
  const int64_t most = tall > 1    ? tall
                       : wide <= 4 ? 4
                                   : kMostSequenceTaps,
                span = kWarps * (tall == 1   ? 8
                                 : tall <= 5 ? 4
                                             : 2);
  return (tall * wide + 1) * kTableLine + 16 +
         kStages * (2 * span + most - 1) * kChannels * bytes_of_number;
}

// Numbers are of one type and sums in float32. Rows begin at even strides.
struct GridTaps {
  Element type;
  int64_t batch, tokens, channels;  // B, N, C: even
  int64_t columns;                  // N for a sequence
  int64_t tall, wide;               // taps: 1 x K for a sequence, K x K with K odd for an image
  int64_t above, left;              // of them before the pixel itself
  const void* z;                    // [B, N, C]
  int64_t z_batch, z_token;         // strides in elements
  const void *taps, *bias;          // [C, tall, wide], [C] or null
  bool mirrored;                    // the last tap stands first, in both directions
  void* y;                          // [B, N, C]
};

struct GridTapsBackward {
  GridTaps past;  // taps, bias and y are not read
  const void* dy;
  int64_t dy_batch, dy_token;
  int64_t parts;  // as grid_taps_parts says
  float* sums;    // [parts, tall wide + 1, C]: of dtaps and, last, of dbias
};

void grid_taps_cuda(const GridTaps& task, void* stream) noexcept;
int64_t grid_taps_parts(const GridTaps& task) noexcept;
void grid_taps_backward_cuda(const GridTapsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

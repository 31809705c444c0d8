#pragma once
// Convolutions over all tokens, channel by channel, with a tap for every lag:
//   y_t = sum_l tap_l u_{t - l},   l = -N .. N - 1.
// All pairs of tokens are products on tensor cores.
#include <cstdint>

#include "longbow/kernels/channel_rows.h"

namespace longbow::kernels {

// Lags of a table in bfloat16: 1,024 for each segment on both sides and a chunk more.
constexpr int64_t long_reach(int64_t segments) {
  return segments * kChannelSegment + kChannelChunk;
}

// Taps as a table [C, 2, 2 reach] with the largest lag first; the second copy begins one lag later.
struct LongTaps {
  const float *past,
      *ahead;         // lags 0, 1, .. and -1, -2, .., N rows of C numbers; ahead may be null
  const float* skip;  // [C], added to lag 0
  int64_t past_row, ahead_row;
  int64_t tokens, channels, reach;
  bool turned;  // lag l is -l
  void* table;
};

struct LongConvolution {
  ChannelRows u, y;
  const void* table;
  bool past, ahead;  // whether there are positive lags, and negative ones
  int64_t batch, tokens, channels, segments, reach;
};

// [B, N, C] to [B, C, 1024 S], with zeros behind the last token.
struct TurnedRows {
  ChannelRows from;
  void* to;
  int64_t batch, tokens, channels, segments;
};

// sums_l = sum_t dy_t u_{t - l} over all sequences: [C, lags] for the lags from -1024 S or, without
// `ahead`, from 0 on.
constexpr int64_t kLagBlock = 4096;
struct LongLags {
  const void *u, *dy;  // turned
  float* sums;
  bool ahead;
  int64_t batch, channels, segments;
};
constexpr int64_t long_lags(int64_t segments, bool ahead) {
  const int64_t lags = segments * kChannelSegment * (ahead ? 2 : 1);
  return (lags + kLagBlock - 1) / kLagBlock * kLagBlock;
}

void long_taps_cuda(const LongTaps& task, void* stream) noexcept;
void long_convolution_cuda(const LongConvolution& task, void* stream) noexcept;
void turned_rows_cuda(const TurnedRows& task, void* stream) noexcept;
void long_lags_cuda(const LongLags& task, void* stream) noexcept;

}  // namespace longbow::kernels

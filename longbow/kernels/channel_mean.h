#pragma once
// A softmax over the tokens in every channel, and the mean that it weighs: mean_c = sum_n
// softmax_n(k_nc) v_nc. `group` neighbouring channels of v share one of k. Rows lie anywhere;
// within a row there are no gaps.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct ChannelMean {
  Element type;
  const void *k, *v;  // [B, N, C / group], [B, N, C]
  int64_t k_batch, k_row, v_batch, v_row;
  const bool* keep;       // [B, N], or null: all tokens count
  float* parts;           // [B, splits, 3, C]: maximum, sum of weights, weighted sum
  float *mean, *log_sum;  // [B, C]; 0 and infinity where no token counts
  int64_t batch, tokens, channels, group, splits;
};

struct ChannelMeanBackward {
  Element type;
  const void *k, *v;
  int64_t k_batch, k_row, v_batch, v_row;
  const bool* keep;
  const float *mean, *log_sum, *gradient;  // [B, C]
  void *dk, *dv;                           // without gaps
  int64_t batch, tokens, channels, group;
};

bool channel_mean_fits(int64_t channels, int64_t group) noexcept;
int64_t channel_mean_splits(int64_t batch, int64_t tokens, int64_t channels) noexcept;
void channel_mean_cuda(const ChannelMean& task, void* stream) noexcept;
void channel_mean_backward_cuda(const ChannelMeanBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

#pragma once
// A mean over the tokens up to each, weighed in every channel by a softmax over them, and a gate:
//   out_t = sigmoid(q_t) sum_{j <= t} e^{k_j} v_j / sum_{j <= t} e^{k_j}.
// Tokens are cut into chunks; sums are relative to the largest key so far. Rows lie anywhere;
// within a row there are no gaps, and numbers are read two at a time.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/token_rows.h"

namespace longbow::kernels {

struct RunningMean {
  static constexpr int64_t chunk = 16;
  Element type;  // of a half type
  TokenRows<const void*> gate, k, v;
  const bool* keep;  // [B, N], or null: all tokens count
  // [B, chunks, 3, C]: maximum, sum of weights and weighed sum of each chunk, then of all before
  // it.
  float* sums;
  int64_t batch, tokens, channels, chunks;  // an even number of channels
};
struct RunningMeanRead {
  RunningMean all;
  TokenRows<void*> out;
};
// With g = dout sigmoid(q) and l_t the logarithm of the sum of weights: dv_j = e^{k_j - l_j} S_j,
// dk_j = e^{k_j - l_j} (v_j S_j - R_j) with S_j = sum_{t >= j} e^{l_j - l_t} g_t and R_j that of
// g_t mean_t. Where nothing counts yet, l is -1e30.
struct RunningMeanBackward {
  RunningMean all;
  TokenRows<const void*> gradient;
  float* tails;  // [B, chunks, 3, C]: l, S and R of its first token, then of that of the next chunk
  TokenRows<void*> dgate, dk, dv;
};

void running_mean_cuda(const RunningMeanRead& task, void* stream) noexcept;
void running_mean_backward_cuda(const RunningMeanBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

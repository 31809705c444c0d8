#pragma once
// Weights w_t = exp(min(max(a_t, -clip), clip)), 0 of tokens that are not kept, and their sums up
// to each token; with the gradients g of w and h of the sums, da_t = w_t (g_t + sum_{s >= t} h_s)
// where a_t is not clipped. Tokens are cut into chunks, as many as are summed up at once by who
// comes after them. Numbers are bfloat16 and are read two at a time; rows lie anywhere.
#include <cstdint>

#include "longbow/kernels/token_rows.h"

namespace longbow::kernels {

struct RunningWeights {
  static constexpr int64_t most_chunks = 64;
  TokenRows<const void*> logits;
  const bool* keep;  // [B, N], or null: all tokens count
  float clip;
  float* chunk_sums;                          // [B, chunks, C]
  int64_t batch, tokens, channels;            // an even number of channels
  int64_t chunks, chunk;                      // of so many tokens
  TokenRows<void*> weights, sums;             // the forward pass, or
  TokenRows<const void*> dweights[2], dsums;  // the sum of two is the gradient of w
  TokenRows<void*> dlogits;
};

void running_weights_cuda(const RunningWeights& task, void* stream) noexcept;
void running_weights_backward_cuda(const RunningWeights& task, void* stream) noexcept;

}  // namespace longbow::kernels

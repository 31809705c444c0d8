#pragma once
// Softmax weights of one head within chunks on tensor cores; ops/chunk_weights.h defines them.
// Numbers are bfloat16 or float16, scores and sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

struct ChunkWeights {
  static constexpr int kMostTokens = 128, kMostWidth = 64;  // of a chunk, of queries and keys
  Element type;
  int64_t chunks;     // of all sequences
  int tokens, width;  // multiples of 16
  bool causal;
  float scale;
  const void *q, *k;  // [chunks, tokens, width]
  const float* bias;  // [2 tokens - 1], of the distances of keys from 1 - tokens on
  void* weights;      // [chunks, tokens, tokens]
};
struct ChunkWeightsBackward {
  ChunkWeights past;  // its weights are read, its bias is not
  const void* dweights;
  void *dq, *dk;
  float* dbias;  // [chunks, 2 tokens - 1]
};

void chunk_weights_cuda(const ChunkWeights& task, void* stream) noexcept;
void chunk_weights_backward_cuda(const ChunkWeightsBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

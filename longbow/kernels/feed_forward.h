#pragma once
// A whole feed-forward sub-layer in one pass over tokens,
//   y = x + drop(W2 f(W1 norm(x) + b1) + b2),
// and its gradients, for narrow models: the numbers between are never in memory, in the backward
// pass they are formed again from x. Tensors are of bfloat16 or float16, sums in float32.
#include <cstdint>

#include "longbow/kernels/element.h"

namespace longbow::kernels {

enum class Curve { gelu, gelu_tanh, relu, silu };

struct FeedForward {
  Element type;
  Curve curve;
  const void* x;                        // [tokens, width]
  const void *norm_weight, *norm_bias;  // [width]
  const void *up, *up_bias;             // [units, width], [units]
  const void *down, *down_bias;         // [width, units], [width]
  void* y;                              // [tokens, width]
  int64_t tokens, width, units;
  float epsilon;
  const int64_t* key;  // of the dropout, which is that of kernels/dropout.h; null = none
  uint64_t site;
  float rate, kept;  // kept = 1 / (1 - rate)
};

// For the gradient of x, and of the weights in parts:
//   sums[part] = [dup / norm_weight (without what norm_bias adds) [U, width], ddown^T [U, width],
//   dup_bias [U], ddown_bias [width]],
// where U are the units, padded.
struct FeedForwardBackward {
  FeedForward past;
  const void* dy;
  void* dz;  // [tokens, width]: dy where it is not dropped; dy itself without dropout
  void* dx;
  float* sums;
  int64_t parts;
};

// The gradients of the weights from all parts; `sum` has room for one.
struct FeedForwardWeights {
  FeedForward past;
  const float* sums;
  float* sum;
  int64_t parts;
  void *dnorm_weight, *dnorm_bias, *dup, *dup_bias, *ddown, *ddown_bias;
};

// Warps of a block in the forward pass and for the gradient of x, and units of one that adds up the
// gradients of the weights, whose 16 warps take 128 tokens at a time.
struct FeedForwardBlocks {
  int forward_warps, input_warps, slab;
};
constexpr FeedForwardBlocks feed_forward_blocks(int64_t width) noexcept {
  return width > 64 ? FeedForwardBlocks{16, 12, 64} : FeedForwardBlocks{8, 8, 128};
}
// The largest memory that one of these blocks needs, or -1 where there is no kernel.
constexpr int64_t feed_forward_memory(int64_t width, int64_t units) noexcept {
  if ((width != 64 && width != 128) || units <= 0 || units % 8 != 0 || units > 1024) return -1;
  const auto blocks = feed_forward_blocks(width);
  const auto matrices = [width](int64_t count) {
    return 2 * (count * (width + 8) + width * (count + 8)) + 4 * count;
  };
  const int64_t whole = matrices((units + 31) / 32 * 32), room = 2 * 16 * (width + 8),
                forward = whole + blocks.forward_warps * room,
                input = whole + blocks.input_warps * (room + 64),
                sums = matrices(blocks.slab) + 2 * 128 * 2 * (2 * width + blocks.slab + 16);
  const int64_t most = forward > input ? forward : input;
  return most > sums ? most : sums;
}
int64_t feed_forward_sums(int64_t width, int64_t units) noexcept;  // of one part
int64_t feed_forward_parts(int64_t tokens, int64_t width, int64_t units) noexcept;

void feed_forward_cuda(const FeedForward& task, void* stream) noexcept;
void feed_forward_backward_cuda(const FeedForwardBackward& task, void* stream) noexcept;
void feed_forward_weights_cuda(const FeedForwardWeights& task, void* stream) noexcept;

}  // namespace longbow::kernels

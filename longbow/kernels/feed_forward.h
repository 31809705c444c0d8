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

bool feed_forward_fits(int64_t width, int64_t units) noexcept;
int64_t feed_forward_sums(int64_t width, int64_t units) noexcept;  // of one part
int64_t feed_forward_parts(int64_t tokens, int64_t width, int64_t units) noexcept;

void feed_forward_cuda(const FeedForward& task, void* stream) noexcept;
void feed_forward_backward_cuda(const FeedForwardBackward& task, void* stream) noexcept;
void feed_forward_weights_cuda(const FeedForwardWeights& task, void* stream) noexcept;

}  // namespace longbow::kernels

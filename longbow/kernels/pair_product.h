#pragma once
// Attention over all pairs with weights that are no plain softmax, on tensor cores;
// ops/pair_product.h defines it. Numbers are bfloat16 or float16, scores and sums float32.
#include <cstdint>

#include "longbow/kernels/element.h"
#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

constexpr int64_t kMostPairWidth = 64;

// With s = q . k:
//   relu   w = max(scale s, 0);
//   top    w = exp(scale s - base) over the largest s of each query, those above `floor`, and those
//          equal to it up to key `last`.
enum class PairWeights { relu, top };

struct PairProduct {
  Element type;
  PairWeights weights;
  int64_t batch, heads, queries, keys;  // B, H, N, M
  int64_t width, value_width;           // E, D: multiples of 8
  HeadRows q, k, v;
  const bool* keep;  // [B, M], or null: all are real
  bool causal;       // key j is visible to query i when j <= i + (M - N)
  float scale;
  // Of top, [B, H, N]: base is a logarithm to base 2.
  const float *floor, *base;
  const int* last;
};

struct PairProductForward {
  PairProduct past;
  HeadResults out;  // float32: sum_j w v
  float* total;     // of top: [B, H, N], sum_j w
};

// dq, dk and dv for w v with the weights' gradient g . v - delta in `top`, where base holds the
// logarithms of the sums.
struct PairProductBackward {
  PairProduct past;
  HeadRows dout;
  const float* delta;  // of top: [B, H, N]
  HeadResults dq, dk, dv;
};

void pair_product_cuda(const PairProductForward& task, void* stream) noexcept;
void pair_product_backward_cuda(const PairProductBackward& task, void* stream) noexcept;

}  // namespace longbow::kernels

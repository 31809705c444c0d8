#pragma once
// Pairs of 16 tokens, those of a warp, with 64 others under a causal mask, in registers.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/feature_tiles.h"

namespace longbow::kernels {

// Where this block and its span begin.
struct Place {
  int64_t group, b, h, first, span_first, span_end, span;

  template <class Task>
  __device__ explicit Place(const Task& task)
      : group(blockIdx.y),
        b(group / task.heads),
        h(group % task.heads),
        first(blockIdx.x * int64_t{kTile}),
        span_first(first / task.span * task.span),
        span_end(span_first + task.span < task.x.tokens ? span_first + task.span : task.x.tokens),
        span(first / task.span) {}
  __device__ Span whole_span() const { return {group, b, h, span_first, span_end}; }
};

// c [16, 64] += rows [16, W] times 64 rows of another tile, transposed.
template <int W>
__device__ inline void times_other(mma::C (&c)[kTile / 8], const Number* rows,
                                   const Number* other) {
#pragma unroll
  for (int k = 0; k < W; k += 16) {
    const mma::A a = mma::a_of_rows(rows + k, mma::padded(W));
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n) {
      const mma::TwoB b = mma::b_of_columns(other + n * 16 * mma::padded(W) + k, mma::padded(W));
      mma::multiply<Number>(c[2 * n], a, b.tile[0]);
      mma::multiply<Number>(c[2 * n + 1], a, b.tile[1]);
    }
  }
}

// out [16, W] += pairs [16, 64] times 64 rows; pairs rounded, or `exact`, as two numbers each.
template <int W, bool exact>
__device__ inline void times_pairs(mma::C (&out)[W / 8], const mma::C (&pairs)[kTile / 8],
                                   const Number* rows) {
#pragma unroll
  for (int k = 0; k < kTile / 16; ++k) {
    const mma::A a = mma::a_of<Number>(pairs[2 * k], pairs[2 * k + 1]),
                 rest = rest_of(pairs + 2 * k, a);
#pragma unroll
    for (int n = 0; n < W / 16; ++n) {
      const mma::TwoB b = mma::b_of_rows(rows + k * 16 * mma::padded(W) + n * 16, mma::padded(W));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        mma::multiply<Number>(out[2 * n + i], a, b.tile[i]);
        if constexpr (exact) mma::multiply<Number>(out[2 * n + i], rest, b.tile[i]);
      }
    }
  }
}

// Of 64 tokens with themselves, only pairs whose other token is not later stay, or not earlier.
__device__ inline void mask_pairs(mma::C (&pairs)[kTile / 8], bool later) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int own = row + i / 2 * 8, other = n * 8 + 2 * t + i % 2;
      if (later ? other < own : other > own) pairs[n].part[i] = 0;
    }
}

}  // namespace longbow::kernels
#endif

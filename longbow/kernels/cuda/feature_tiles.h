#pragma once
// What passes over tokens have in common: 64 tokens at a time, from global memory through registers
// to shared memory, and back.
#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/feature_product.h"

namespace longbow::kernels {

using Number = __nv_bfloat16;

constexpr int kTile = 64;  // tokens

// The rows of one head.
struct HeadRows {
  Number* data;
  int64_t stride;
};
__device__ inline HeadRows rows_of(const ByHead& all, int64_t b, int64_t h) {
  return {static_cast<Number*>(all.data) + b * all.batch + h * all.head, all.token};
}

// The tokens of one block: those of a span of one head.
struct Span {
  int64_t group, b, h, first, end;
};
template <class Task>
__device__ inline Span span_of(const Task& task) {
  const int64_t group = blockIdx.y, first = blockIdx.x * task.span, end = first + task.span;
  return {group, group / task.heads, group % task.heads, first,
          end < task.x.tokens ? end : task.x.tokens};
}

__device__ inline void spread(const uint4& pack, float (&x)[8]) {
  const uint32_t words[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = mma::unpack<Number>(words[i]);
    x[2 * i] = two.x;
    x[2 * i + 1] = two.y;
  }
}
__device__ inline uint4 packed(const float (&x)[8]) {
  return {mma::pack<Number>(x[0], x[1]), mma::pack<Number>(x[2], x[3]),
          mma::pack<Number>(x[4], x[5]), mma::pack<Number>(x[6], x[7])};
}

// Rows of W numbers, one for each token, in the registers of a block, 8 numbers in each pack.
template <int W, int kThreads, int kTokens = kTile>
struct Stage {
  static constexpr int kPacks = kTokens * W / 8 / kThreads,
                       kRows = 256 / W;  // of a warp in each of its packs
  uint4 pack[kPacks];

  __device__ static int row(int i) {
    return (i * kThreads + static_cast<int>(threadIdx.x)) / (W / 8);
  }
  __device__ static int channel(int i) {
    return (i * kThreads + static_cast<int>(threadIdx.x)) % (W / 8) * 8;
  }
  // Rows from `first` on; zeros where a row is not below `end` or a channel not below `width`.
  __device__ void load(const HeadRows& from, int64_t first, int64_t end, int64_t width) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t n = first + row(i);
      pack[i] = n < end && channel(i) < width
                    ? *reinterpret_cast<const uint4*>(from.data + n * from.stride + channel(i))
                    : uint4{0, 0, 0, 0};
    }
  }
  // Each row by the size of its number.
  __device__ void scale(const float* by, int64_t first, int64_t end) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t n = first + row(i);
      const float factor = n < end ? fabsf(by[n]) : 0;
      float x[8];
      spread(pack[i], x);
#pragma unroll
      for (float& number : x) number *= factor;
      pack[i] = packed(x);
    }
  }
  // The row, of those of this warp, whose number this lane reads for all of them.
  __device__ static int own_row() {
    const int warp = static_cast<int>(threadIdx.x) / 32,
              lane = static_cast<int>(threadIdx.x) % (kPacks * kRows);
    return lane / kRows * (kThreads * 8 / W) + warp * kRows + lane % kRows;
  }
  // The lane that reads it for row(i).
  __device__ static int lane_of(int i) {
    return i * kRows + static_cast<int>(threadIdx.x) % 32 / (W / 8);
  }
  // The same in two steps, so that the number is read before the row is needed.
  __device__ static float scale_of(const float* by, int64_t first, int64_t end) {
    const int64_t n = first + own_row();
    return n < end ? by[n] : 0;
  }
  __device__ void scale(float own) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const float factor = fabsf(__shfl_sync(0xffffffffu, own, lane_of(i)));
      float x[8];
      spread(pack[i], x);
#pragma unroll
      for (float& number : x) number *= factor;
      pack[i] = packed(x);
    }
  }
  __device__ void store(Number* tile) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) put(tile, mma::padded(W), i, pack[i]);
  }
  __device__ static void put(Number* tile, int stride, int i, const uint4& value) {
    *reinterpret_cast<uint4*>(tile + row(i) * stride + channel(i)) = value;
  }
};

// 16 rows of a tile, those of one warp, to global memory.
template <int W>
__device__ inline void write_rows(const Number* tile, const HeadRows& to, int64_t first,
                                  int64_t end, int64_t width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * W / 8; i += 32) {
    const int row = i / (W / 8), channel = i % (W / 8) * 8;
    if (first + row < end && channel < width)
      *reinterpret_cast<uint4*>(to.data + (first + row) * to.stride + channel) =
          *reinterpret_cast<const uint4*>(tile + row * mma::padded(W) + channel);
  }
}

// The same, added to what is there.
template <int W>
__device__ inline void add_rows(const Number* tile, const HeadRows& to, int64_t first, int64_t end,
                                int64_t width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * W / 8; i += 32) {
    const int row = i / (W / 8), channel = i % (W / 8) * 8;
    if (first + row >= end || channel >= width) continue;
    auto* const place = reinterpret_cast<uint4*>(to.data + (first + row) * to.stride + channel);
    float sum[8], more[8];
    spread(*place, sum);
    spread(*reinterpret_cast<const uint4*>(tile + row * mma::padded(W) + channel), more);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += more[e];
    *place = packed(sum);
  }
}

// The numbers of a product, [16, W], to the rows of a tile.
template <int W>
__device__ inline void put_product(Number* tile, const mma::C (&c)[W / 8], float upper,
                                   float lower) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < W / 8; ++n) {
    auto* to = tile + g * mma::padded(W) + n * 8 + 2 * t;
    *reinterpret_cast<uint32_t*>(to) =
        mma::pack<Number>(c[n].part[0] * upper, c[n].part[1] * upper);
    *reinterpret_cast<uint32_t*>(to + 8 * mma::padded(W)) =
        mma::pack<Number>(c[n].part[2] * lower, c[n].part[3] * lower);
  }
}

// Sums [R, D] of float32 as two numbers each, whose sum has twice the digits.
template <int R, int D>
struct SplitSums {
  static constexpr int kStride = mma::padded(D), kNumbers = 2 * R * kStride;
  Number *high, *low;  // [R, D]

  __device__ explicit SplitSums(Number* place) : high(place), low(place + R * kStride) {}
  __device__ void fill(const float* sums, int threads) const {
    for (int i = static_cast<int>(threadIdx.x); i < R * D / 2; i += threads) {
      const int r = i / (D / 2), d = i % (D / 2) * 2;
      const float2 sum = *reinterpret_cast<const float2*>(sums + r * (D + 4) + d);
      const uint32_t top = mma::pack<Number>(sum.x, sum.y);
      const float2 rounded = mma::unpack<Number>(top);
      *reinterpret_cast<uint32_t*>(high + r * kStride + d) = top;
      *reinterpret_cast<uint32_t*>(low + r * kStride + d) =
          mma::pack<Number>(sum.x - rounded.x, sum.y - rounded.y);
    }
  }
};

// Two columns of B, whose sum has twice the digits of one: the numbers of `column` from k on.
__device__ inline mma::B split_column(const float* column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  mma::B b = {{0, 0}};
  if (g > 1) return b;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 x = *reinterpret_cast<const float2*>(column + half * 8 + 2 * t);
    b.part[half] = mma::pack<Number>(x.x, x.y);
    if (g == 0) continue;
    const float2 rounded = mma::unpack<Number>(b.part[half]);
    b.part[half] = mma::pack<Number>(x.x - rounded.x, x.y - rounded.y);
  }
  return b;
}

// A sum over the columns of a product, of which four neighbouring lanes have a part each.
__device__ __forceinline__ void over_lanes(float& sum) {
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
}

// What rounding to bfloat16 leaves of two tiles C beside each other, from c on.
__device__ inline mma::A rest_of(const mma::C* c, const mma::A& rounded) {
  mma::A rest;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = mma::unpack<Number>(rounded.part[i]);
    const float* part = c[i / 2].part + i % 2 * 2;
    rest.part[i] = mma::pack<Number>(part[0] - two.x, part[1] - two.y);
  }
  return rest;
}

}  // namespace longbow::kernels
#endif

#pragma once
// Keys and values of a head stay in shared memory while the tokens of a span pass by, 16 to a warp:
// their scores are whole in the registers of a warp, and warps do not wait for each other. What the
// next head adds to a token is added by the thread that wrote the sum of the last ones.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/mixture_tiles.h"

namespace longbow::kernels::mixture {

template <int kWidth, int kSlots>
struct ForwardShape {
  // As many warps as have room for the weights and the rows of 16 tokens in their registers.
  static constexpr int kWarps = kWidth > 64 || kSlots > 128 ? 8 : 12, kThreads = kWarps * 32;
  static constexpr int kBytes = sizeof(float) * kSlots * (2 * kWidth + 1);
};

// Rows g and g + 8 of 16 tokens, four numbers of every 16.
template <int kWidth>
struct TokenRows {
  float4 part[2][kWidth / 16];

  __device__ TokenRows(const float* x, int64_t stride, int64_t first, int64_t end, int width) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) {
        const int64_t token = first + half * 8 + lane / 4;
        const int column = k * 16 + lane % 4 * 4;
        part[half][k] = token < end && column < width
                            ? *reinterpret_cast<const float4*>(x + token * stride + column)
                            : make_float4(0, 0, 0, 0);
      }
  }
};

// Scores become weights of a softmax; returns the logarithms of their sums before, of rows g and g
// + 8.
template <int kPairs>
__device__ __forceinline__ float2 weigh(C (&score)[kPairs][2], const float* added) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  float log_sum[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& one = score[n][i / 2].part[2 * half + i % 2];
        one += added[n * 16 + t * 4 + i];
        largest = fmaxf(largest, one);
      }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float shift = largest == -INFINITY ? 0 : largest;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& one = score[n][i / 2].part[2 * half + i % 2];
        one = mma::power_of_two((one - shift) * kLog2E);
        total += one;
      }
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const float factor = total > 0 ? 1 / total : 0;
    log_sum[half] = total > 0 ? shift + logf(total) : INFINITY;
#pragma unroll
    for (int n = 0; n < kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i / 2].part[2 * half + i % 2] *= factor;
  }
  return make_float2(log_sum[0], log_sum[1]);
}

// Scores become weights f(score).
template <Rule kRule, int kPairs>
__device__ __forceinline__ void bend(C (&score)[kPairs][2], const float* added) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int n = 0; n < kPairs; ++n)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& one = score[n][i / 4].part[i % 4];
      one = point_at<kRule>(one + added[n * 16 + t * 4 + i / 4 * 2 + i % 2]).value;
    }
}

// Sums begin with a row.
template <int kParts>
__device__ __forceinline__ void begin(C (&sum)[kParts][4], const float* row, int width) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = part * 32 + t * 8 + i % 2 * 4 + j;
        sum[part][j].part[i] = column < width ? row[column] : 0;
      }
}

template <int kPairs>
__device__ __forceinline__ void drop(const SlotMixture& task, C (&w)[kPairs][2], int64_t row,
                                     int64_t head, int64_t token) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t first =
        ((row * task.tokens + token + half * 8 + lane / 4) * task.heads + head) * task.slots +
        lane % 4 * 4;
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      const uint32_t bits = staying(task, first + n * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& one = w[n][i / 2].part[2 * half + i % 2];
        one = stays(bits, i, one);
      }
    }
  }
}

template <Rule kRule, int kWidth, int kSlots>
__global__ void __launch_bounds__(ForwardShape<kWidth, kSlots>::kThreads, 1) mix(SlotMixture task) {
  constexpr int kPairs = kSlots / 16, kTokens = 16,
                kStep = ForwardShape<kWidth, kSlots>::kWarps * kTokens;
  const Span span(task);
  float* const keys = reinterpret_cast<float*>(dynamic_memory());
  float* const values = keys + kSlots * kWidth;
  float* const added = values + kSlots * kWidth;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* const x = span.of(task.x);
  for (int64_t head = 0; head < task.heads; ++head) {
    const int64_t place = span.row * task.heads + head;
    __syncthreads();
    load_slots<kWidth, kSlots>(task, place, keys, values);
    for (int r = static_cast<int>(threadIdx.x); r < kSlots; r += blockDim.x)
      added[r] = added_to<kRule>(task, place, r);
    mma::await_copies<0>();
    __syncthreads();
    for (int64_t first = span.first + static_cast<int>(threadIdx.x) / 32 * kTokens;
         first < span.end; first += kStep) {
      C w[kPairs][2] = {}, sum[kWidth / 32][4] = {};
      if (task.offset && head == 0) begin(sum, task.offset, static_cast<int>(task.value_width));
      {
        const TokenRows<kWidth> rows(x, task.x.token, first, span.end,
                                     static_cast<int>(task.width));
        add_products<kWidth>(
            w, [&](int k) { return left_of(rows.part[0][k], rows.part[1][k]); }, keys);
      }
      const int64_t own = first + lane / 4;
      if constexpr (kRule == Rule::softmax) {
        const float2 log_sum = weigh(w, added);
        float* const sums = task.log_sum + place * task.tokens;
        if (lane % 4 == 0 && own < span.end) sums[own] = log_sum.x;
        if (lane % 4 == 0 && own + 8 < span.end) sums[own + 8] = log_sum.y;
      } else {
        bend<kRule>(w, added);
      }
      if (task.key) drop(task, w, span.row, head, first);
#pragma unroll
      for (int n = 0; n < kPairs; ++n)
        add_rows<kWidth>(sum, left_of(neighbours(w[n], 0), neighbours(w[n], 1)),
                         values + n * 16 * kWidth);
#pragma unroll
      for (int part = 0; part < kWidth / 32; ++part)
        put(
            sum[part], span.of(task.out) + part * 32, task.out.token,
            [&](int half) { return own + half * 8; }, span.end,
            static_cast<int>(task.value_width) - part * 32, head > 0);
    }
  }
}

template <Rule kRule>
void mix_all(const SlotMixture& task, void* stream) {
  with_shape<kRule>(task, [&]<int kWidth, int kSlots>() {
    using S = ForwardShape<kWidth, kSlots>;
    launch(mix<kRule, kWidth, kSlots>, grid_of(task), S::kThreads, S::kBytes, stream, task);
  });
}

}  // namespace longbow::kernels::mixture
#endif

#pragma once
// With w the weights of a head, m what is not dropped, and g = dout:
//   dp_ir = m_ir (g_i . v_r),   ds_ir = w_ir (dp_ir - sum_r' w_ir' dp_ir') or dp_ir f'(score_ir),
//   dx_i = sum_hr ds_ir k_r,   dk_r = sum_i ds_ir x_i,   dv_r = sum_i m_ir w_ir g_i,
//   db_r = sum_i ds_ir.
// A warp has 16 slots of a head to itself and forms their weights for a tile of tokens, one row for
// each slot: these are the left factors of dk and dv as they stand, which remain in registers while
// the tokens of a span pass by. Only ds goes through shared memory, to become rows of tokens for
// dx. Sums of spans are added outside, in one order.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/mixture_tiles.h"

namespace longbow::kernels::mixture {

template <int kWidth, int kSlots>
struct BackwardShape {
  static constexpr int kWarps = kSlots / 16, kThreads = kWarps * 32;
  static constexpr int kTokens = mixed_tokens(kSlots, kWidth), kPairs = kTokens / 16;
  static constexpr int kParts = kWidth / 32, kRows = kTokens * kWidth;
};

template <class S>
using Weights = C[S::kPairs][2];

template <int kWidth, int kSlots>
struct Block {
  using S = BackwardShape<kWidth, kSlots>;
  float *keys, *values;  // [kSlots, kWidth]
  float* tiles;          // x and g [kTokens, kWidth], two of each
  float* changes;        // ds [kSlots, kTokens]
  float* shares;         // [kTokens, kWarps], of the sums w dp
  float* log_sums;       // [kTokens]
  int warp, g, t;

  __device__ Block()
      : keys(reinterpret_cast<float*>(dynamic_memory())),
        values(keys + kSlots * kWidth),
        tiles(values + kSlots * kWidth),
        changes(tiles + 4 * S::kRows),
        shares(changes + kSlots * S::kTokens),
        log_sums(shares + S::kTokens * S::kWarps),
        warp(static_cast<int>(threadIdx.x) / 32),
        g(static_cast<int>(threadIdx.x) % 32 / 4),
        t(static_cast<int>(threadIdx.x) % 4) {}

  __device__ float* x(int buffer) const { return tiles + 2 * buffer * S::kRows; }
  __device__ float* slope(int buffer) const { return x(buffer) + S::kRows; }
  __device__ int slot(int half) const { return warp * 16 + 2 * g + half; }

  // Begins to copy x and g of a tile.
  __device__ void load(const SlotMixtureBackward& all, const Span& span, int64_t first,
                       int buffer) const {
    const auto& task = all.past;
    load_tile<kWidth>(x(buffer), span.of(task.x), task.x.token, S::kTokens, first, span.end,
                      static_cast<int>(task.width));
    load_tile<kWidth>(slope(buffer), span.of(all.dout), all.dout.token, S::kTokens, first, span.end,
                      static_cast<int>(task.value_width));
    mma::commit_copies();
  }

  // c += rows of this warp's slots times the rows of a tile; beside(k) runs with the terms 16 k ….
  template <class F>
  __device__ void score(Weights<S>& c, const float* slots, const float* tile,
                        const F& beside) const {
    const Place own = {slot(0), t * 4};
    add_products<kWidth>(
        c,
        [&](int k) {
          beside(k);
          return left_of(four_at<kWidth>(slots, {0, k * 16}, own),
                         four_at<kWidth>(slots, {1, k * 16}, own));
        },
        tile);
  }
  __device__ void weigh(Weights<S>& w, const float (&added)[2]) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n) {
      const float4 four = *reinterpret_cast<const float4*>(log_sums + n * 16 + t * 4);
      const float log_sum[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& one = w[n][i / 2].part[2 * half + i % 2];
          one = mma::power_of_two((one + added[half] - log_sum[i]) * kLog2E);
        }
    }
  }

  // Which weights of the tokens 16 n … stay: bit 8 n + 2 i + half. Lanes with neighbouring g have
  // four slots together and draw for two of four tokens each.
  __device__ uint32_t draw(const SlotMixture& task, int64_t row, int64_t head, int64_t first,
                           int n) const {
    const int odd = g % 2;
    uint32_t drawn = 0, kept = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t token = row * task.tokens + first + n * 16 + t * 4 + odd * 2 + j;
      const int64_t index = (token * task.heads + head) * task.slots + warp * 16 + g / 2 * 4;
      drawn |= staying(task, index) << (4 * j);
    }
    const uint32_t other = __shfl_xor_sync(0xffffffffu, drawn, 4);
    const uint32_t four = (odd ? other | drawn << 8 : drawn | other << 8) >> (2 * odd);
#pragma unroll
    for (int i = 0; i < 4; ++i) kept |= (four >> (4 * i) & 3) << (8 * n + 2 * i);
    return kept;
  }

  // dp becomes zero where weights are dropped; the sums w dp over this warp's slots are shared.
  __device__ void share(const Weights<S>& w, Weights<S>& dp, uint32_t kept) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& one = dp[n][i / 2].part[2 * half + i % 2];
          one = stays(kept, 8 * n + 2 * i + half, one);
          sum += w[n][i / 2].part[2 * half + i % 2] * one;
        }
#pragma unroll
        for (int far = 4; far < 32; far *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
        if (g == 0) shares[(n * 16 + t * 4 + i) * S::kWarps + warp] = sum;
      }
  }

  // dp becomes ds.
  __device__ void subtract(const Weights<S>& w, Weights<S>& dp) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float delta = 0;
#pragma unroll
        for (int first = 0; first < S::kWarps; first += 4) {
          const float4 four =
              *reinterpret_cast<const float4*>(shares + (n * 16 + t * 4 + i) * S::kWarps + first);
          delta += (four.x + four.y) + (four.z + four.w);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int part = 2 * half + i % 2;
          float& one = dp[n][i / 2].part[part];
          one = w[n][i / 2].part[part] * (one - delta);
        }
      }
  }

  // Scores become weights f(score), and dp becomes ds.
  template <Rule kRule>
  __device__ void bend(Weights<S>& w, Weights<S>& dp, const float (&added)[2],
                       uint32_t kept) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int part = 2 * half + i % 2;
          const curves::Point point = point_at<kRule>(w[n][i / 2].part[part] + added[half]);
          float& one = dp[n][i / 2].part[part];
          w[n][i / 2].part[part] = point.value;
          one = stays(kept, 8 * n + 2 * i + half, one) * point.slope;
        }
  }

  // ds where all warps can read it; db has its sums.
  __device__ void show(const Weights<S>& ds, float (&db)[2]) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 four = neighbours(ds[n], half);
        db[half] += (four.x + four.y) + (four.z + four.w);
        *reinterpret_cast<float4*>(changes + slot(half) * S::kTokens +
                                   ((n * 16 + t * 4) ^ (g / 2 * 8))) = four;
      }
  }

  // sum += what stays of the weights times the rows of a tile.
  __device__ void add_tokens(C (&sum)[S::kParts][4], const Weights<S>& w, uint32_t kept,
                             const float* tile) const {
#pragma unroll
    for (int n = 0; n < S::kPairs; ++n) {
      float4 row[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 all = neighbours(w[n], half);
        const int bit = 8 * n + half;
        row[half] = make_float4(stays(kept, bit, all.x), stays(kept, bit + 2, all.y),
                                stays(kept, bit + 4, all.z), stays(kept, bit + 6, all.w));
      }
      add_rows<kWidth>(sum, left_of(row[0], row[1]), tile + n * 16 * kWidth);
    }
  }

  // dx of the tile, from ds of all warps: 16 tokens and 32 columns at a time.
  __device__ void store_dx(float* dx, int64_t stride, int64_t first, int64_t end, int width,
                           bool adds) const {
    constexpr int kGroups = S::kTokens / 16;
    for (int job = warp; job < kGroups * S::kParts; job += S::kWarps) {
      const int token = job % kGroups * 16 + 2 * g, column = job / kGroups * 32;
      C sum[1][4] = {};
#pragma unroll 2
      for (int s = 0; s < kSlots; s += 16) {
        float2 two[4];
#pragma unroll
        for (int c = 0; c < 4; ++c)
          two[c] = *reinterpret_cast<const float2*>(changes + (s + t * 4 + c) * S::kTokens +
                                                    (token ^ (t * 8)));
        add_rows<kWidth>(sum,
                         left_of(make_float4(two[0].x, two[1].x, two[2].x, two[3].x),
                                 make_float4(two[0].y, two[1].y, two[2].y, two[3].y)),
                         keys + s * kWidth, column);
      }
      put(
          sum[0], dx + column, stride, [&](int half) { return first + token + half; }, end,
          width - column, adds);
    }
  }

  // Sums [R, width] of this warp's slots.
  __device__ void store_sums(const C (&sum)[S::kParts][4], float* to, int64_t slots,
                             int width) const {
#pragma unroll
    for (int part = 0; part < S::kParts; ++part)
      put(
          sum[part], to + part * 32, width, [&](int half) { return int64_t{slot(half)}; }, slots,
          width - part * 32, false);
  }
  __device__ void store_bias(const float (&db)[2], float* to, int64_t slots) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = db[half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (t == 0 && slot(half) < slots) to[slot(half)] = sum;
    }
  }
};

// Where the sums of a span and a head stand.
struct Sums {
  float *keys, *values, *bias;

  __device__ Sums(const SlotMixtureBackward& all, int64_t place) {
    const auto& task = all.past;
    const int64_t rows = task.batch * task.lanes * task.heads * task.slots;
    float* const own = all.sums + blockIdx.y * all.stride;
    keys = own + place * task.slots * task.width;
    values = own + rows * task.width + place * task.slots * task.value_width;
    bias = own + rows * (task.width + task.value_width) + place * task.slots;
  }
};

template <Rule kRule, bool kDrops, int kWidth, int kSlots>
__global__ void __launch_bounds__(BackwardShape<kWidth, kSlots>::kThreads, 1)
    differentiate(SlotMixtureBackward all) {
  using S = BackwardShape<kWidth, kSlots>;
  const auto& task = all.past;
  const Span span(task);
  const Block<kWidth, kSlots> block;
  const auto width = static_cast<int>(task.width);
  for (int64_t head = 0; head < task.heads; ++head) {
    const int64_t place = span.row * task.heads + head;
    float log_sum = 0;  // of the next tile
    const auto load = [&](int64_t first, int buffer) {
      block.load(all, span, first, buffer);
      if (kRule != Rule::softmax) return;
      const int64_t token = first + threadIdx.x;
      log_sum = threadIdx.x < S::kTokens && token < span.end
                    ? task.log_sum[place * task.tokens + token]
                    : INFINITY;
    };
    __syncthreads();
    load_slots<kWidth, kSlots>(task, place, block.keys, block.values);
    load(span.first, 0);
    const float added[2] = {added_to<kRule>(task, place, block.slot(0)),
                            added_to<kRule>(task, place, block.slot(1))};
    C dk[S::kParts][4] = {}, dv[S::kParts][4] = {};
    float db[2] = {};
    for (int64_t first = span.first, buffer = 0; first < span.end;
         first += S::kTokens, buffer ^= 1) {
      if (threadIdx.x < S::kTokens) block.log_sums[threadIdx.x] = log_sum;
      mma::await_copies<0>();
      __syncthreads();
      if (first + S::kTokens < span.end) load(first + S::kTokens, buffer ^ 1);
      const float *const x = block.x(buffer), *const slope = block.slope(buffer);
      Weights<S> w = {}, dp = {};
      block.score(w, block.keys, x, [](int) {});
      if constexpr (kRule == Rule::softmax) block.weigh(w, added);
      uint32_t kept = kDrops ? 0 : 0xffffffffu;
      block.score(dp, block.values, slope, [&](int k) {
        if (kDrops && k < S::kPairs) kept |= block.draw(task, span.row, head, first, k);
      });
      if constexpr (kRule == Rule::softmax)
        block.share(w, dp, kept);
      else
        block.template bend<kRule>(w, dp, added, kept);
      block.add_tokens(dv, w, kept, slope);
      if constexpr (kRule == Rule::softmax) {
        __syncthreads();
        block.subtract(w, dp);
      }
      block.show(dp, db);
      block.add_tokens(dk, dp, 0xffffffffu, x);
      __syncthreads();
      block.store_dx(span.of(all.dx), all.dx.token, first, span.end, width, head > 0);
    }
    const Sums sums(all, place);
    block.store_sums(dk, sums.keys, task.slots, width);
    block.store_sums(dv, sums.values, task.slots, static_cast<int>(task.value_width));
    block.store_bias(db, sums.bias, task.slots);
  }
}

template <Rule kRule>
void differentiate_all(const SlotMixtureBackward& task, void* stream) {
  with_shape<kRule>(task.past, [&]<int kWidth, int kSlots>() {
    const auto kernel = task.past.key ? differentiate<kRule, true, kWidth, kSlots>
                                      : differentiate<kRule, false, kWidth, kSlots>;
    launch(kernel, grid_of(task.past), BackwardShape<kWidth, kSlots>::kThreads,
           mixture_memory(kSlots, kWidth), stream, task);
  });
}

}  // namespace longbow::kernels::mixture
#endif

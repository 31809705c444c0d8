#pragma once
// What both passes of a mixture of slots share: where a thread block stands, and which weights
// stay.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/curves.h"
#include "longbow/kernels/cuda/float_products.h"
#include "longbow/kernels/exponent.h"
#include "longbow/kernels/philox_rounds.h"
#include "longbow/kernels/slot_mixture.h"

namespace longbow::kernels::mixture {

using namespace floats;

enum class Rule { softmax, gelu, relu };

template <Rule kRule>
__device__ __forceinline__ curves::Point point_at(float u) {
  static_assert(kRule != Rule::softmax);
  if constexpr (kRule == Rule::gelu) return curves::gelu</*kExact=*/true>(u);
  return {fmaxf(u, 0), u > 0 ? 1.f : 0.f};
}

// Thread block (row, span): the row of tokens and its tokens first … end - 1.
struct Span {
  int64_t row, batch, lane;
  int64_t first, end;

  __device__ explicit Span(const SlotMixture& task)
      : row(blockIdx.x),
        batch(row / task.lanes),
        lane(row % task.lanes),
        first(blockIdx.y * task.span),
        end(min(task.tokens, first + task.span)) {}
  __device__ const float* of(const HeadRows& x) const {
    return static_cast<const float*>(x.data) + batch * x.batch + lane * x.head;
  }
  __device__ float* of(const HeadResults& x) const {
    return static_cast<float*>(x.data) + batch * x.batch + lane * x.head;
  }
};

inline dim3 grid_of(const SlotMixture& task) {
  return dim3(static_cast<unsigned>(task.batch * task.lanes),
              static_cast<unsigned>((task.tokens + task.span - 1) / task.span));
}

// Begins to copy keys and values of a head.
template <int kWidth, int kSlots>
__device__ __forceinline__ void load_slots(const SlotMixture& task, int64_t place, float* keys,
                                           float* values) {
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  load_tile<kWidth>(keys, task.keys + place * task.slots * width, width, kSlots, 0, task.slots,
                    width);
  load_tile<kWidth>(values, task.values + place * task.slots * value_width, value_width, kSlots, 0,
                    task.slots, value_width);
  mma::commit_copies();
}
// What is added to the score of a slot; those behind the last have rows of zeros.
template <Rule kRule>
__device__ __forceinline__ float added_to(const SlotMixture& task, int64_t place, int slot) {
  if (slot >= task.slots) return kRule == Rule::softmax ? -INFINITY : 0;
  return task.bias ? task.bias[place * task.slots + slot] : 0;
}

// Rows g and g + 8 of a part of the columns, to tokens(0) and tokens(1) before `end`: written, or
// added to what stands there.
template <class F>
__device__ __forceinline__ void put(const C (&part)[4], float* to, int64_t stride, const F& token,
                                    int64_t end, int width, bool adds) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = t * 8 + i * 4;
      if (token(half) >= end || column >= width) continue;
      float4* const place = reinterpret_cast<float4*>(to + token(half) * stride + column);
      float4 four = four_of(part, half, i);
      if (adds) {
        const float4 last = *place;
        four = make_float4(last.x + four.x, last.y + four.y, last.z + four.z, last.w + four.w);
      }
      *place = four;
    }
}

// Which of the weights `index` … index + 3 of a draw stay, as bits; index is a multiple of 4.
__device__ __forceinline__ uint32_t staying(const SlotMixture& task, int64_t index) {
  // philox_unit(word) >= rate, without the conversion.
  const uint32_t least = static_cast<uint32_t>(ceilf(static_cast<float>(task.rate) * 0x1p24f)) << 8;
  const auto drawn = philox_site(task.key[0], task.key[1], task.site, index / 4);
  uint32_t stay = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) stay |= static_cast<uint32_t>(drawn.word[i] >= least) << i;
  return stay;
}

__device__ __forceinline__ float stays(uint32_t bits, int i, float x) {
  return bits >> i & 1 ? x : 0;
}

// body<kWidth, kSlots>() of the sizes that hold those of a task; groups of units are smaller than
// slots may be.
template <Rule kRule, class F>
void with_shape(const SlotMixture& task, const F& body) {
  const int64_t slots = mixed_slots(task.slots);
  if (mixed_width(max(task.width, task.value_width)) == 128)
    return slots == 64 ? body.template operator()<128, 64>() : body.template operator()<128, 128>();
  if (slots == 64) return body.template operator()<64, 64>();
  if constexpr (kRule == Rule::softmax)
    if (slots == 256) return body.template operator()<64, 256>();
  body.template operator()<64, 128>();
}

}  // namespace longbow::kernels::mixture
#endif

#pragma once
// What kernels share in which the rows of few slots, queries or keys, stay in shared memory while
// the tokens of a head pass by, 64 at a time, 16 to a warp.
#ifdef __CUDACC__
#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/tile_rows.h"
#include "longbow/kernels/element.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels::slots {

using namespace blocks;

constexpr int kWarps = 4, kThreads = kWarps * 32, kTile = kWarps * 16;
constexpr int kWidth = 64, kStride = mma::padded(kWidth), kBuffer = kTile * kStride;

// Begins to copy the rows of the slots, zeros behind the last.
template <int kSlots, class T>
__device__ void load_slots(T* to, const T* from, int64_t stride, int64_t slots, int64_t width) {
  const auto count = static_cast<int>(slots);
  load_rows<kWidth>(to, from, stride, kSlots, static_cast<int>(width),
                    [&](int row) { return row < count ? row : -1; });
}

// sum [16, kWidth] += w [16, slots] times the rows of the slots.
template <class T, int kTiles>
__device__ __forceinline__ void add_slots(mma::C (&sum)[1][kWidth / 8],
                                          const mma::C (&w)[1][kTiles], const T* rows) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    const mma::A a[1] = {mma::a_of<T>(w[0][n], w[0][n + 1])};
    add_weighed(sum, a, rows + n * 8 * kStride);
  }
}

// Scores of 16 queries, yet to be scaled, become weights; a query that sees no slot has none.
template <int kTiles>
__device__ __forceinline__ void weigh(mma::C (&score)[1][kTiles], const float* added,
                                      float scale = 1) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& one = score[0][n].part[2 * i + j];
        one = one * (scale * kLog2E) + added[n * 8 + 2 * t + j];
        largest = fmaxf(largest, one);
      }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float shift = largest == -INFINITY ? 0 : largest;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& one = score[0][n].part[2 * i + j];
        one = mma::power_of_two(one - shift);
        total += one;
      }
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const float factor = total > 0 ? 1 / total : 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) score[0][n].part[2 * i + j] *= factor;
  }
}

// Weights of 16 tokens where all warps can read them: rows of kSlots numbers.
template <class T, int kTiles>
__device__ __forceinline__ void show(const mma::C (&w)[1][kTiles], T* to) {
  constexpr int kLine = mma::padded(kTiles * 8);
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      *reinterpret_cast<uint32_t*>(to + (i * 8 + g) * kLine + n * 8 + 2 * t) =
          mma::pack<T>(w[0][n].part[2 * i], w[0][n].part[2 * i + 1]);
}

// How the warps share out sums [kSlots, kWidth] over tokens: 16 slots and some of the columns each.
template <int kSlots>
struct Share {
  static constexpr int kTiles = kSlots / 16, kColumns = kWidth * kTiles / kWarps;
  int slot, column;

  __device__ Share() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    slot = warp % kTiles * 16;
    column = warp / kTiles * kColumns;
  }
  // sum += w^T rows over the tokens of a tile.
  template <class T>
  __device__ __forceinline__ void add(mma::C (&sum)[kColumns / 8], const T* w,
                                      const T* rows) const {
    constexpr int kLine = mma::padded(kSlots);
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      const mma::A a = mma::a_of_columns(w + k * kLine + slot, kLine);
#pragma unroll
      for (int n = 0; n < kColumns; n += 16) {
        const auto two = mma::b_of_rows(rows + k * kStride + column + n, kStride);
        mma::multiply<T>(sum[n / 8], a, two.tile[0]);
        mma::multiply<T>(sum[n / 8 + 1], a, two.tile[1]);
      }
    }
  }
  // To [slots, width].
  __device__ void store(const mma::C (&sum)[kColumns / 8], float* to, int64_t slots,
                        int64_t width) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = slot + i * 8 + g, at = column + n * 8;
        if (row >= slots || at >= width) continue;
        float* place = to + row * width + at + 2 * t;
        place[0] = sum[n].part[2 * i];
        place[1] = sum[n].part[2 * i + 1];
      }
  }
};

// Calls body with the type and the number of slots, rounded up, as constants.
template <class Task, class F>
void with_shape(const Task& task, const F& body) {
  const auto with_slots = [&]<class T>() {
    if (task.slots <= 16) return body.template operator()<T, 16>();
    if (task.slots <= 32) return body.template operator()<T, 32>();
    body.template operator()<T, 64>();
  };
  if (task.type == Element::bfloat16) return with_slots.template operator()<__nv_bfloat16>();
  with_slots.template operator()<__half>();
}

}  // namespace longbow::kernels::slots
#endif

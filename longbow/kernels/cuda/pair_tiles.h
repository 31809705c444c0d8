#pragma once
// What the kernels of pair_product and top_keys share: tiles of scores of all pairs, of which those
// that are hidden are -infinity, and their weights.
#ifdef __CUDACC__
#include <cstdint>

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/tile_rows.h"
#include "longbow/kernels/exponent.h"
#include "longbow/kernels/pair_product.h"

namespace longbow::kernels::pairs {

using namespace blocks;

constexpr int kWarps = 4, kThreads = kWarps * 32, kTile = 64;  // kTile: tokens that pass by
constexpr int kWidth = kMostPairWidth, kStride = mma::padded(kWidth), kBuffer = kTile * kStride;
constexpr int kRows = 2, kHeld = kWarps * kRows * 16;  // tokens that a thread block holds

// The head of a thread block and the first token that it holds, of `tokens`.
struct Place {
  int64_t both, batch, head;
  int first;

  __device__ Place(const PairProduct& task, int tokens, int held) {
    const int tiles = (tokens + held - 1) / held, index = static_cast<int>(blockIdx.x);
    both = index / tiles;
    batch = both / task.heads;
    head = both % task.heads;
    first = (tiles - 1 - index % tiles) * held;  // under a causal mask the last ones take longest
  }
  template <class T>
  __device__ const T* rows(const HeadRows& x) const {
    return static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
  }
  template <class T>
  __device__ T* rows(const HeadResults& x) const {
    return static_cast<T*>(x.data) + batch * x.batch + head * x.head;
  }
};

// Which keys a query sees.
struct Sight {
  int queries, keys, shift;
  bool causal;
  const bool* keep;

  __device__ Sight(const PairProduct& task, const Place& place)
      : queries(static_cast<int>(task.queries)),
        keys(static_cast<int>(task.keys)),
        shift(keys - queries),
        causal(task.causal),
        keep(task.keep ? task.keep + place.batch * task.keys : nullptr) {}
  __device__ bool sees(int query, int key) const {
    return key < keys && (!causal || key <= query + shift) && (!keep || keep[key]);
  }
  // All pairs of the queries from `query` on and of the keys key … key + count - 1.
  __device__ bool all(int query, int key, int count) const {
    return !keep && key + count <= keys && (!causal || key + count - 1 <= query + shift);
  }
  // Behind the last key that queries before `end` see, and the first query that sees a key.
  __device__ int end_of_keys(int end) const {
    return causal ? max(0, min(keys, min(end, queries) + shift)) : keys;
  }
  __device__ int first_query(int key) const { return causal ? max(0, key - shift) : 0; }
};

// Hides scores of 16 rows a tile, from `row` on, and of columns from `column` on. Rows are queries
// and columns keys, or the other way round.
template <bool queries, int kMany, int kTiles>
__device__ __forceinline__ void hide(mma::C (&s)[kMany][kTiles], const Sight& sight, int row,
                                     int column) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < kMany; ++m)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + m * 16 + i / 2 * 8 + g, c = column + n * 8 + 2 * t + i % 2;
        if (!(queries ? sight.sees(r, c) : sight.sees(c, r))) s[m][n].part[i] = -INFINITY;
      }
}

// Begins to copy 64 tokens from `first` on; those from `end` on are zeros.
template <class T>
__device__ __forceinline__ void load_tile(T* to, const T* from, int64_t stride, int64_t width,
                                          int first, int end, int rows = kTile) {
  load_rows<kWidth>(to, from, stride, rows, static_cast<int>(width),
                    [&](int row) { return first + row < end ? first + row : -1; });
}

// What weights need of a query.
struct Row {
  float floor, base, delta;
  int last;

  static __device__ Row none() { return {INFINITY, 0, 0, -1}; }
  static __device__ Row of(const PairProduct& task, const float* delta, int64_t both, int query) {
    if (query >= task.queries) return none();
    const int64_t at = both * task.queries + query;
    return {task.floor[at], task.base[at], delta ? delta[at] : 0, task.last[at]};
  }
};

struct Relu {
  static constexpr bool kHasRows = false;
  float scale;
  __device__ explicit Relu(const PairProduct& task) : scale(task.scale) {}
  __device__ float weight(float s, const Row&, int) const { return fmaxf(s * scale, 0); }
  __device__ float slope(float s, float, float dp, const Row&) const {
    return s > 0 ? dp * scale : 0;
  }
};

struct Top {
  static constexpr bool kHasRows = true;
  float scale, power;
  __device__ explicit Top(const PairProduct& task)
      : scale(task.scale), power(task.scale * kLog2E) {}
  __device__ float weight(float s, const Row& row, int key) const {
    const bool in = s > row.floor || (s == row.floor && key <= row.last);
    return in ? mma::power_of_two(s * power - row.base) : 0;
  }
  __device__ float slope(float, float weight, float dp, const Row& row) const {
    return weight * (dp - row.delta) * scale;
  }
};

// The rows of the queries that a thread holds tiles of.
struct OwnRows {
  Row row[kRows][2];

  template <class Weights>
  __device__ void load(const PairProduct& task, const float* delta, int64_t both, int first) {
    if constexpr (Weights::kHasRows) {
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          row[m][i] = Row::of(task, delta, both,
                              first + m * 16 + i * 8 + static_cast<int>(threadIdx.x) % 32 / 4);
    }
  }
};

template <class F>
void with_weights(const PairProduct& task, const F& body) {
  const auto with_type = [&]<class T>() {
    if (task.weights == PairWeights::relu) return body.template operator()<T, Relu>();
    body.template operator()<T, Top>();
  };
  if (task.type == Element::bfloat16) return with_type.template operator()<__nv_bfloat16>();
  with_type.template operator()<__half>();
}

inline unsigned blocks_for(const PairProduct& task, int64_t tokens, int held) {
  return static_cast<unsigned>(task.batch * task.heads * ((tokens + held - 1) / held));
}

}  // namespace longbow::kernels::pairs
#endif

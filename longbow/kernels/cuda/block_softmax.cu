// Forward. A CUDA block holds a tile of queries of one block; its keys and values pass by in tiles,
// and the softmax is that of the keys so far: the largest score, the sum of weights relative to it,
// and the values weighed by them. A warp has 16 kRows queries to itself, so the rows of its scores
// never leave it.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/block_tiles.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

constexpr int kSlots = kTile / 8;

// Weights may be relative to less than the largest score, by this power of two: the sums are then
// seldom scaled again.
constexpr float kSlack = 8;

// What the queries of a warp have read so far. Weights are powers of two relative to `top`.
template <class T, int kWidth, int kRows>
struct Reading {
  mma::C sum[kRows][kWidth / 8];
  float top[kRows][2], total[kRows][2];

  __device__ Reading() : sum{}, total{} {
#pragma unroll
    for (int m = 0; m < kRows; ++m) top[m][0] = top[m][1] = -INFINITY;
  }

  // Scores times a positive unit become weights.
  __device__ __forceinline__ void weigh(mma::C (&score)[kRows][kSlots], float unit) {
    raise(score, unit);
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float shift = top[m][i] == -INFINITY ? 0 : top[m][i];
        float added = 0;
#pragma unroll
        for (int n = 0; n < kSlots; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& one = score[m][n].part[2 * i + j];
            one = mma::power_of_two(one * unit - shift);
            added += one;
          }
        total[m][i] += added;
      }
  }

  // To the largest scores, where these are far above it.
  __device__ __forceinline__ void raise(const mma::C (&score)[kRows][kSlots], float unit) {
    float largest[kRows][2];
    bool far = false;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& one = largest[m][i];
        one = score[m][0].part[2 * i];
#pragma unroll
        for (int n = 0; n < kSlots; ++n)
          one = fmaxf(one, fmaxf(score[m][n].part[2 * i], score[m][n].part[2 * i + 1]));
        one = fmaxf(one, __shfl_xor_sync(0xffffffffu, one, 1));
        one = fmaxf(one, __shfl_xor_sync(0xffffffffu, one, 2));
        one *= unit;
        far = far || one > top[m][i] + kSlack;
      }
    if (__all_sync(0xffffffffu, !far)) return;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Of this row alone: what others read must not change how it is rounded.
        const float raised = largest[m][i] > top[m][i] + kSlack ? largest[m][i] : top[m][i];
        const float shrunk = raised == -INFINITY ? 0 : mma::power_of_two(top[m][i] - raised);
        top[m][i] = raised;
        total[m][i] *= shrunk;
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          sum[m][n].part[2 * i] *= shrunk;
          sum[m][n].part[2 * i + 1] *= shrunk;
        }
      }
  }

  __device__ __forceinline__ void add(const mma::C (&weight)[kRows][kSlots], const T* values) {
#pragma unroll
    for (int n = 0; n < kSlots; n += 2) {
      mma::A w[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) w[m] = mma::a_of<T>(weight[m][n], weight[m][n + 1]);
      add_weighed(sum, w, values + n * 8 * mma::padded(kWidth));
    }
  }

  // The logarithms of the sums of weights, for those of `rows` queries, and the factors of `sum`.
  __device__ __forceinline__ void finish(float (&factor)[kRows][2], float* log_sum, int rows,
                                         float dropped) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float all = total[m][i];
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        factor[m][i] = all > 0 ? dropped / all : 0;
        const int row = m * 16 + i * 8 + g;
        if (t == 0 && row < rows) log_sum[row] = all > 0 ? top[m][i] * kLn2 + logf(all) : -INFINITY;
      }
  }
};

// `first` is where the weight of the thread's first query and slot 0 stands, the next query's is
// `line` further.
template <int kRows>
__device__ __forceinline__ void drop(mma::C (&weight)[kRows][kSlots], const Dropped& dropped,
                                     int64_t first, int64_t line) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < kSlots; n += 2) {
        bool stay[2][2];
        dropped.two_tiles(first + (m * 16 + i * 8) * line + n * 8 + 2 * t, stay);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (!stay[j / 2][j % 2]) weight[m][n + j / 2].part[2 * i + j % 2] = 0;
      }
}

// How many CUDA blocks a multiprocessor should have room for: with more of them less waits, as long
// as registers suffice.
template <int kWidth, int kMore, int kRows>
constexpr int kResident = kWidth > 64 || kDrops<kMore> ? 2 : (kRows > 1 ? 3 : 4) - (kMore > 0);

template <class T, int kWidth, int kMore, int kRows>
__global__ void __launch_bounds__(kMostThreads, kResident<kWidth, kMore, kRows>)
    attend(BlockSoftmax task) {
  constexpr int kStride = mma::padded(kWidth), kBuffer = kTile * kStride;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int most = static_cast<int>(blockDim.x / 32) * kRows * 16, own = warp * kRows * 16;
  const Held held(blockIdx.x, task, task.queries, task.query_block, most);
  const auto& place = held.place;
  if (held.rows <= 0) return;

  unsigned char* const memory = dynamic_memory();
  __shared__ Walk walk;
  __shared__ Marks<kMostWarps * kRows * 16> marks;
  T* const queries = reinterpret_cast<T*>(memory);
  const Dropped dropped(task);
  const auto passing = keys_of<kMore>(task, held);
  T* const keys = queries + most * kStride;
  T* const values = keys + passing.cut.buffers() * kBuffer;
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto tokens = queries_of<kMore>(task, place);
  load_rows<kWidth>(queries, place.rows<T>(task.q), task.q.token, most, width,
                    [&](int row) { return row < held.rows ? tokens.token(held.first + row) : -1; });
  mma::commit_copies();
  marks.fill(tokens, held, most);

  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const AddedScores<T, kMore> added(task, place);
  const WeightPlaces weights(task, held);
  Reading<T, kWidth, kRows> reading;
  each_tile(
      walk, passing, 0, passing.cut.tiles(),
      [&](int stage, int tile, const auto& run) {
        passing.describe(walk.slots[stage], tile, run, nothing_more);
      },
      [&](int stage, int buffer) {
        const auto token = [&](int slot) { return walk.slots[stage].token[slot]; };
        load_rows<kWidth>(keys + buffer * kBuffer, k, task.k.token, kTile, width, token);
        load_rows<kWidth>(values + buffer * kBuffer, v, task.v.token, kTile, value_width, token);
      },
      [&](int stage, int buffer, int tile) {
        const auto& slots = walk.slots[stage];
        mma::C s[kRows][kSlots] = {};
        if constexpr (kMore == kWindows) {  // first, so that memory is read meanwhile
          Window windows[kRows][2];
          find_windows(windows, marks, own, held.first, passing.rule, added, slots.of_memory);
          show_windows(s, slots, 0, windows, added);
        }
        // Queries are read again for each tile: there are few registers.
        add_row_products<T, kWidth / 16>(s, queries + own * kStride, keys + buffer * kBuffer);
        const int64_t column = passing.cut.column(tile);
        if (kMore != kWindows && (added.some() || !slots.all_visible()))
          hide<true>(s, slots, 0, marks, own, passing.rule,
                     [&](float one, int row, int slot, int ahead) {
                       return added.to(one, held.first + row, slots.token[slot], ahead,
                                       weights.in_head(row) + column + slot);
                     });
        reading.weigh(s, added.unit());
        if (kDrops<kMore> && dropped.some)
          drop(s, dropped, weights.in_all(own + lane / 4) + column, weights.line);
        reading.add(s, values + buffer * kBuffer);
      });

  float factor[kRows][2];
  reading.finish(factor, task.log_sum + place.both * task.queries + held.first + own,
                 held.rows - own, kDrops<kMore> ? dropped.factor : 1);
  store_rows<T, kWidth, kRows>(reading.sum, factor, queries + own * kStride,
                               place.rows<T>(task.out) + (held.first + own) * task.out.token,
                               task.out.token, held.rows - own, value_width);
}

template <class T, int kWidth, int kMore, int kRows>
void launch_tiles(const BlockSoftmax& task, void* stream) {
  const int warps = warps_for(task.query_block, task.queries, kRows * 16),
            rows = warps * kRows * 16;
  const int64_t tiles = Held::tiles(task.queries, task.query_block, rows);
  const size_t bytes = sizeof(T) * mma::padded(kWidth) * (rows + 2 * buffers_of(task) * kTile);
  constexpr int kMost = kMostWarps * kRows * 16;  // and two buffers
  static_assert(sizeof(T) * mma::padded(kWidth) * (kMost + 4 * kTile) + sizeof(Walk) +
                    sizeof(Marks<kMost>) <=
                block_softmax_memory(kWidth));
  launch(attend<T, kWidth, kMore, kRows>, static_cast<unsigned>(task.batch * task.heads * tiles),
         warps * 32, bytes, stream, task);
}

}  // namespace

void block_softmax_cuda(const BlockSoftmax& task, void* stream) noexcept {
  with_shape(task, [&]<class T, int kWidth, int kMore>() {
    with_rows<kWidth>(task,
                      [&]<int kRows>() { launch_tiles<T, kWidth, kMore, kRows>(task, stream); });
  });
}

}  // namespace longbow::kernels

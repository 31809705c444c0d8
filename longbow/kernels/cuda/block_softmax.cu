// Forward. A CUDA block holds a tile of queries of one block; its keys and values pass by in tiles,
// and the softmax is that of the keys so far: the largest score, the sum of weights relative to it,
// and the values weighed by them. A warp has 16 kRows queries to itself, so the rows of its scores
// never leave it.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/block_tiles.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

// Tiles of 16 queries of a warp: as many as registers have room for.
template <int kWidth>
constexpr int kRowsOf = kWidth > 64 ? 1 : 2;

template <class T, int kWidth, bool kMore>
__global__ void __launch_bounds__(kMostThreads) attend(BlockSoftmax task) {
  constexpr int kRows = kRowsOf<kWidth>, kStride = mma::padded(kWidth), kSteps = kWidth / 16;
  constexpr int kKeys = kTile / 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int tile_rows = static_cast<int>(blockDim.x / 32) * kRows * 16;

  const auto query_block = static_cast<int>(task.query_block);
  const int tiles_each = (query_block + tile_rows - 1) / tile_rows;
  const int64_t tiles = task.blocks * tiles_each;
  const HeadPlace place(blockIdx.x / tiles, task.heads);
  const auto u = static_cast<int>(blockIdx.x % tiles / tiles_each),
             offset = static_cast<int>(blockIdx.x % tiles_each) * tile_rows;
  const int first = u * query_block + offset;
  const int rows =
      min(min(tile_rows, query_block - offset), static_cast<int>(task.queries) - first);
  if (rows <= 0) return;

  extern __shared__ __align__(16) char memory[];
  __shared__ Walk walk;
  __shared__ int position[kMostThreads / 32 * kRows * 16], group[kMostThreads / 32 * kRows * 16];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const keys = queries + tile_rows * kStride;  // [2, kTile]
  T* const values = keys + 2 * kTile * kStride;   // [2, kTile]

  const Rule rule(task);
  const Dropped dropped(task);
  const bool drops = kMore && task.key;
  const Passing<true> passing = {
      Cut(static_cast<int>(task.listed), static_cast<int>(task.key_block)),
      {static_cast<int>(task.keys), place.of(task.key_positions), place.of(task.key_groups),
       place.of(task.keep)},
      place.of(task.columns) + u * task.listed,
      1,
      rule,
      first,
      first + rows - 1};
  const Tokens tokens = {static_cast<int>(task.queries), place.of(task.query_positions),
                         place.of(task.query_groups), nullptr};
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  load_rows<kWidth>(queries, place.rows<T>(task.q), task.q.token, tile_rows, width,
                    [&](int row) { return row < rows ? first + row : -1; });
  mma::commit_copies();
  for (int row = static_cast<int>(threadIdx.x); row < tile_rows; row += blockDim.x) {
    position[row] = row < rows ? tokens.position(first + row) : 0;
    group[row] = row < rows ? tokens.group(first + row) : kHidden;
  }

  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const float* bias = kMore ? place.of(task.bias) : nullptr;
  const int64_t line = task.listed * task.key_block;  // of a query's weights
  const int64_t lines = (int64_t{u} * query_block + offset) * line;
  const int64_t drawn = place.both * task.blocks * query_block * line + lines;
  const int own = warp * kRows * 16;  // the first query of this warp

  mma::A q[kRows][kSteps];
  bool fresh = true;
  mma::C sum[kRows][kWidth / 8] = {};
  float top[kRows][2], total[kRows][2] = {};
  for (int m = 0; m < kRows; ++m) top[m][0] = top[m][1] = -INFINITY;

  each_tile(
      walk, passing, 0, passing.cut.tiles(),
      [&](int stage, int tile) {
        passing.describe(walk.slots[stage], tile, [](int, int, const Cut::Place&) {});
      },
      [&](int stage, int buffer) {
        const auto& slots = walk.slots[stage];
        const auto token = [&](int slot) { return slots.token[slot]; };
        load_rows<kWidth>(keys + buffer * kTile * kStride, k, task.k.token, kTile, width, token);
        load_rows<kWidth>(values + buffer * kTile * kStride, v, task.v.token, kTile, value_width,
                          token);
      },
      [&](int stage, int buffer, int tile) {
        const auto& slots = walk.slots[stage];
        if (fresh)
#pragma unroll
          for (int m = 0; m < kRows; ++m)
#pragma unroll
            for (int step = 0; step < kSteps; ++step)
              q[m][step] = mma::a_of_rows(queries + (own + m * 16) * kStride + step * 16, kStride);
        fresh = false;

        mma::C s[kRows][kKeys] = {};
        const T* tile_keys = keys + buffer * kTile * kStride;
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int n = 0; n < kKeys / 2; ++n) {
            const auto b = mma::b_of_columns(tile_keys + n * 16 * kStride + step * 16, kStride);
#pragma unroll
            for (int m = 0; m < kRows; ++m) {
              mma::multiply<T>(s[m][2 * n], q[m][step], b.tile[0]);
              mma::multiply<T>(s[m][2 * n + 1], q[m][step], b.tile[1]);
            }
          }

        const int64_t column = passing.cut.column(tile);
        if (bias || !slots.all_visible())
          hide(s, slots, 0, rule, position + own, group + own,
               bias ? bias + lines + own * line + column : nullptr, line);

#pragma unroll
        for (int m = 0; m < kRows; ++m)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float largest = top[m][i];
#pragma unroll
            for (int n = 0; n < kKeys; ++n)
              largest = fmaxf(largest, fmaxf(s[m][n].part[2 * i], s[m][n].part[2 * i + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            const float shift = largest == -INFINITY ? 0 : largest * kLog2E;
            const float shrunk = mma::power_of_two(top[m][i] * kLog2E - shift);
            top[m][i] = largest;
            float added = 0;
#pragma unroll
            for (int n = 0; n < kKeys; ++n)
#pragma unroll
              for (int j = 0; j < 2; ++j) {
                float& score = s[m][n].part[2 * i + j];
                score = mma::power_of_two(score * kLog2E - shift);
                added += score;
              }
            total[m][i] = total[m][i] * shrunk + added;
#pragma unroll
            for (int n = 0; n < kWidth / 8; ++n) {
              sum[m][n].part[2 * i] *= shrunk;
              sum[m][n].part[2 * i + 1] *= shrunk;
            }
          }

        if (drops)
#pragma unroll
          for (int m = 0; m < kRows; ++m)
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
              for (int n = 0; n < kKeys; n += 2) {
                bool stay[2][2];
                const int row = own + m * 16 + i * 8 + g;
                dropped.two_tiles(drawn + row * line + column + n * 8 + 2 * t, stay);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                  if (!stay[0][j]) s[m][n].part[2 * i + j] = 0;
                  if (!stay[1][j]) s[m][n + 1].part[2 * i + j] = 0;
                }
              }

        const T* tile_values = values + buffer * kTile * kStride;
#pragma unroll
        for (int step = 0; step < kTile / 16; ++step) {
          mma::A p[kRows];
#pragma unroll
          for (int m = 0; m < kRows; ++m) p[m] = mma::a_of<T>(s[m][2 * step], s[m][2 * step + 1]);
#pragma unroll
          for (int n = 0; n < kWidth / 16; ++n) {
            const auto b = mma::b_of_rows(tile_values + step * 16 * kStride + n * 16, kStride);
#pragma unroll
            for (int m = 0; m < kRows; ++m) {
              mma::multiply<T>(sum[m][2 * n], p[m], b.tile[0]);
              mma::multiply<T>(sum[m][2 * n + 1], p[m], b.tile[1]);
            }
          }
        }
      });

  float factor[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float all = total[m][i];
      all += __shfl_xor_sync(0xffffffffu, all, 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      factor[m][i] = all > 0 ? dropped.factor / all : 0;
      const int row = own + m * 16 + i * 8 + g;
      if (t == 0 && row < rows)
        task.log_sum[place.both * task.queries + first + row] =
            all > 0 ? top[m][i] + logf(all) : -INFINITY;
    }
  store_rows<T, kWidth, kRows>(sum, factor, queries + own * kStride,
                               place.rows<T>(task.out) + (first + own) * task.out.token,
                               task.out.token, rows - own, value_width);
}

template <class T, int kWidth, bool kMore>
void launch(const BlockSoftmax& task, cudaStream_t stream) {
  constexpr int kRows = kRowsOf<kWidth> * 16;
  const int64_t longest = task.query_block < task.queries ? task.query_block : task.queries;
  const int64_t wanted = (longest + kRows - 1) / kRows;
  const int warps = wanted < kMostWarps ? static_cast<int>(wanted) : kMostWarps;
  const int rows = warps * kRows;
  const int64_t tiles = (task.query_block + rows - 1) / rows;
  const size_t bytes = sizeof(T) * mma::padded(kWidth) * (rows + 4 * kTile);
  cudaFuncSetAttribute(attend<T, kWidth, kMore>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
  attend<T, kWidth, kMore><<<static_cast<unsigned>(task.batch * task.heads * task.blocks * tiles),
                             warps * 32, bytes, stream>>>(task);
}

}  // namespace

void block_softmax_cuda(const BlockSoftmax& task, void* stream) noexcept {
  with_shape(task, [&]<class T, int kWidth, bool kMore>() {
    launch<T, kWidth, kMore>(task, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace longbow::kernels

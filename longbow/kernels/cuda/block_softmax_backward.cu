// Backward, in two kernels that form the weights w again. With g = dout and delta = sum_d g out -
// dlog_sum,
//   ds_ij = w_ij (g_i . v_j - delta_i),   dq_i = sum_j ds_ij k_j,
//   dk_j = sum_i ds_ij q_i,   dv_j = sum_i w_ij g_i.
// The first kernel holds queries while keys pass by, the second one keys while queries pass by; the
// latter reads which blocks of queries list a block of keys. Sums are always made in one order.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/block_tiles.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

__device__ float exponent(float log_sum) {
  return log_sum == -INFINITY ? 0 : log_sum * kLog2E;
}

// Tiles of 16 queries of a warp: as many as registers have room for.
template <int kWidth>
constexpr int kRowsOf = kWidth > 64 ? 1 : 2;

// delta of the rows of a tile, in shared and in global memory.
template <class T, int kWidth>
__device__ void find_delta(const BlockSoftmaxBackward& task, const HeadPlace& place, int first,
                           int rows, int tile_rows, float* delta) {
  constexpr int kPacks = kWidth / 8;
  const auto width = static_cast<int>(task.past.value_width);
  const T* out = static_cast<const T*>(task.past.out.data) + place.batch * task.past.out.batch +
                 place.head * task.past.out.head;
  const T* dout = place.rows<T>(task.dout);
  for (int i = static_cast<int>(threadIdx.x); i < tile_rows * kPacks; i += blockDim.x) {
    const int row = i / kPacks, column = i % kPacks * 8;
    float sum = 0;
    if (row < rows && column < width) {
      const auto a = *reinterpret_cast<const uint4*>(out + (first + row) * task.past.out.token +
                                                     column),
                 b = *reinterpret_cast<const uint4*>(dout + (first + row) * task.dout.token +
                                                     column);
      const uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 x = mma::unpack<T>(left[j]), y = mma::unpack<T>(right[j]);
        sum += x.x * y.x + x.y * y.y;
      }
    }
#pragma unroll
    for (int far = kPacks / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (column > 0) continue;
    if (row < rows) {
      const int64_t query = place.both * task.past.queries + first + row;
      sum -= task.dlog_sum[query];
      task.delta[query] = sum;
    }
    delta[row] = sum;
  }
}

template <class T, int kWidth, bool kMore>
__global__ void __launch_bounds__(kMostThreads) query_gradient(BlockSoftmaxBackward all) {
  constexpr int kRows = kRowsOf<kWidth>, kStride = mma::padded(kWidth), kSteps = kWidth / 16;
  constexpr int kMostRows = kMostWarps * kRows * 16;
  const auto& task = all.past;
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
  __shared__ int position[kMostRows], group[kMostRows];
  __shared__ float row_delta[kMostRows];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const slopes = queries + tile_rows * kStride;  // dout
  T* const keys = slopes + tile_rows * kStride;     // [2, kTile]
  T* const values = keys + 2 * kTile * kStride;     // [2, kTile]

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
  const auto own_token = [&](int row) { return row < rows ? first + row : -1; };
  load_rows<kWidth>(queries, place.rows<T>(task.q), task.q.token, tile_rows, width, own_token);
  load_rows<kWidth>(slopes, place.rows<T>(all.dout), all.dout.token, tile_rows, value_width,
                    own_token);
  mma::commit_copies();
  for (int row = static_cast<int>(threadIdx.x); row < tile_rows; row += blockDim.x) {
    position[row] = row < rows ? tokens.position(first + row) : 0;
    group[row] = row < rows ? tokens.group(first + row) : kHidden;
  }
  find_delta<T, kWidth>(all, place, first, rows, tile_rows, row_delta);
  __syncthreads();

  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const float* bias = kMore ? place.of(task.bias) : nullptr;
  const int64_t line = task.listed * task.key_block;  // of a query's weights
  const int64_t lines = (int64_t{u} * query_block + offset) * line;
  const int64_t drawn = place.both * task.blocks * query_block * line + lines;
  const int own = warp * kRows * 16;  // the first query of this warp

  float delta[kRows][2], log_sum[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own + m * 16 + i * 8 + g;
      delta[m][i] = row_delta[row];
      log_sum[m][i] =
          row < rows ? exponent(task.log_sum[place.both * task.queries + first + row]) : 0;
    }
  mma::A q[kRows][kSteps], slope[kRows][kSteps];
  bool fresh = true;
  mma::C sum[kRows][kWidth / 8] = {};

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
            for (int step = 0; step < kSteps; ++step) {
              const int from = (own + m * 16) * kStride + step * 16;
              q[m][step] = mma::a_of_rows(queries + from, kStride);
              slope[m][step] = mma::a_of_rows(slopes + from, kStride);
            }
        fresh = false;
        const int64_t column = passing.cut.column(tile);
        const bool whole = slots.all_visible();
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16) {
          const T *part_keys = keys + (buffer * kTile + part) * kStride,
                  *part_values = values + (buffer * kTile + part) * kStride;
          mma::C s[kRows][2] = {}, dp[kRows][2] = {};
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            const auto a = mma::b_of_columns(part_keys + step * 16, kStride),
                       b = mma::b_of_columns(part_values + step * 16, kStride);
#pragma unroll
            for (int m = 0; m < kRows; ++m)
#pragma unroll
              for (int n = 0; n < 2; ++n) {
                mma::multiply<T>(s[m][n], q[m][step], a.tile[n]);
                mma::multiply<T>(dp[m][n], slope[m][step], b.tile[n]);
              }
          }
          if (bias || !whole)
            hide(s, slots, part, rule, position + own, group + own,
                 bias ? bias + lines + own * line + column : nullptr, line);
#pragma unroll
          for (int m = 0; m < kRows; ++m)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const int row = own + m * 16 + i * 8 + g;
              const int64_t weight_place = row * line + column + part + 2 * t;
              bool stay[2][2];
              if (drops) dropped.two_tiles(drawn + weight_place, stay);
#pragma unroll
              for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                  float& score = s[m][n].part[2 * i + j];
                  const bool seen = score > -INFINITY;
                  const float weight = mma::power_of_two(score * kLog2E - log_sum[m][i]);
                  float slope_of_weight = dp[m][n].part[2 * i + j];
                  if (drops) slope_of_weight *= stay[n][j] ? dropped.factor : 0;
                  score = weight * (slope_of_weight - delta[m][i]);
                  if (kMore && all.dbias && seen)
                    all.dbias[drawn + weight_place + n * 8 + j] = score;
                }
            }
          mma::A ds[kRows];
#pragma unroll
          for (int m = 0; m < kRows; ++m) ds[m] = mma::a_of<T>(s[m][0], s[m][1]);
#pragma unroll
          for (int n = 0; n < kWidth / 16; ++n) {
            const auto b = mma::b_of_rows(part_keys + n * 16, kStride);
#pragma unroll
            for (int m = 0; m < kRows; ++m) {
              mma::multiply<T>(sum[m][2 * n], ds[m], b.tile[0]);
              mma::multiply<T>(sum[m][2 * n + 1], ds[m], b.tile[1]);
            }
          }
        }
      });

  float one[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m) one[m][0] = one[m][1] = 1;
  store_rows<T, kWidth, kRows>(sum, one, queries + own * kStride,
                               place.rows<T>(all.dq) + (first + own) * all.dq.token, all.dq.token,
                               rows - own, width);
}

// Sums of one warp that others will be added to: rows of [M, width].
template <int kWidth>
__device__ void store_part(const mma::C (&sums)[1][kWidth / 8], float* to, int rows, int width) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = i * 8 + g;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      if (row < rows && n * 8 < width) {
        float* at = to + int64_t{row} * width + n * 8 + 2 * t;
        at[0] = sums[0][n].part[2 * i];
        at[1] = sums[0][n].part[2 * i + 1];
      }
  }
}

template <class T, int kWidth, bool kMore>
__global__ void __launch_bounds__(kMostThreads, kWidth > 64 || kMore ? 2 : 3)
    key_gradient(BlockSoftmaxBackward all) {
  constexpr int kStride = mma::padded(kWidth), kSteps = kWidth / 16;
  constexpr int kMostRows = kMostWarps * 16;
  const auto& task = all.past;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int tile_rows = static_cast<int>(blockDim.x / 32) * 16;

  const auto key_block = static_cast<int>(task.key_block);
  const int tiles_each = (key_block + tile_rows - 1) / tile_rows;
  const int64_t tiles = (task.keys + key_block - 1) / key_block * tiles_each;
  const HeadPlace place(blockIdx.x / tiles, task.heads);
  const auto c = static_cast<int>(blockIdx.x % tiles / tiles_each),
             offset = static_cast<int>(blockIdx.x % tiles_each) * tile_rows;
  const int first = c * key_block + offset;
  const int rows = min(min(tile_rows, key_block - offset), static_cast<int>(task.keys) - first);
  if (rows <= 0) return;

  extern __shared__ __align__(16) char memory[];
  __shared__ Walk walk;
  __shared__ int position[kMostRows], group[kMostRows];
  __shared__ float log_sums[3][kTile], deltas[3][kTile];
  __shared__ int64_t lines[3][kTile];  // where the weights of a query begin
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + tile_rows * kStride;
  T* const queries = values + tile_rows * kStride;  // [2, kTile]
  T* const slopes = queries + 2 * kTile * kStride;  // [2, kTile], dout

  const Rule rule(task);
  const Dropped dropped(task);
  const bool drops = kMore && task.key;
  const int64_t* const starts = place.of(all.first) + c;
  const int64_t* const entries = place.of(all.order) + starts[0];
  const Passing<false> passing = {
      Cut(static_cast<int>(starts[1] - starts[0]), static_cast<int>(task.query_block)),
      {static_cast<int>(task.queries), place.of(task.query_positions), place.of(task.query_groups),
       nullptr},
      entries,
      task.listed,
      rule,
      first,
      first + rows - 1};
  const Tokens tokens = {static_cast<int>(task.keys), place.of(task.key_positions),
                         place.of(task.key_groups), place.of(task.keep)};
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto own_token = [&](int row) {
    return row < rows && tokens.group(first + row) != kNobody ? first + row : -1;
  };
  load_rows<kWidth>(keys, place.rows<T>(task.k), task.k.token, tile_rows, width, own_token);
  load_rows<kWidth>(values, place.rows<T>(task.v), task.v.token, tile_rows, value_width, own_token);
  mma::commit_copies();
  bool hides = false;
  for (int row = static_cast<int>(threadIdx.x); row < tile_rows; row += blockDim.x) {
    const bool seen = own_token(row) >= 0;
    position[row] = seen ? tokens.position(first + row) : 0;
    group[row] = seen ? tokens.group(first + row) : kHidden;
    hides = hides || !seen;
  }
  const bool all_kept = !__syncthreads_or(hides);

  const T *q = place.rows<T>(task.q), *dout = place.rows<T>(all.dout);
  const float* bias = kMore ? place.of(task.bias) : nullptr;
  const int64_t line = task.listed * task.key_block;
  const int64_t drawn = place.both * task.blocks * task.query_block * line;
  const int own = warp * 16;  // the first key of this warp

  mma::A k[kSteps], v[kSteps];
  bool fresh = true;
  mma::C dk[1][kWidth / 8] = {}, dv[1][kWidth / 8] = {};

  const auto parts = static_cast<int>(all.parts), part_of_list = static_cast<int>(blockIdx.y);
  const int each = (passing.cut.tiles() + parts - 1) / parts;
  each_tile(
      walk, passing, part_of_list * each, min((part_of_list + 1) * each, passing.cut.tiles()),
      [&](int stage, int tile) {
        passing.describe(walk.slots[stage], tile, [&](int slot, int token, const Cut::Place& from) {
          const int64_t query = place.both * task.queries + token;
          log_sums[stage][slot] = token < 0 ? 0 : exponent(task.log_sum[query]);
          deltas[stage][slot] = token < 0 ? 0 : all.delta[query];
          if (token >= 0 && (bias || drops)) {
            const int64_t entry = entries[from.entry];
            lines[stage][slot] = (entry / task.listed * task.query_block + from.offset) * line +
                                 entry % task.listed * key_block + offset;
          }
        });
      },
      [&](int stage, int buffer) {
        const auto& slots = walk.slots[stage];
        const auto token = [&](int slot) { return slots.token[slot]; };
        load_rows<kWidth>(queries + buffer * kTile * kStride, q, task.q.token, kTile, width, token);
        load_rows<kWidth>(slopes + buffer * kTile * kStride, dout, all.dout.token, kTile,
                          value_width, token);
      },
      [&](int stage, int buffer, int) {
        const auto& slots = walk.slots[stage];
        if (fresh)
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            k[step] = mma::a_of_rows(keys + own * kStride + step * 16, kStride);
            v[step] = mma::a_of_rows(values + own * kStride + step * 16, kStride);
          }
        fresh = false;
        const bool whole = all_kept && slots.all_visible();
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16) {
          const T *part_queries = queries + (buffer * kTile + part) * kStride,
                  *part_slopes = slopes + (buffer * kTile + part) * kStride;
          mma::C s[2] = {}, dp[2] = {};
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            const auto a = mma::b_of_columns(part_queries + step * 16, kStride),
                       b = mma::b_of_columns(part_slopes + step * 16, kStride);
#pragma unroll
            for (int n = 0; n < 2; ++n) {
              mma::multiply<T>(s[n], k[step], a.tile[n]);
              mma::multiply<T>(dp[n], v[step], b.tile[n]);
            }
          }
          bool stay[2][4];
          if (drops)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              int64_t index[4];
#pragma unroll
              for (int n = 0; n < 4; ++n)
                index[n] = drawn + lines[stage][part + n / 2 * 8 + 2 * t + n % 2] + own + i * 8 + g;
              dropped.four_lines(index, stay[i]);
            }
          if (bias || !whole)
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
              for (int j = 0; j < 2; ++j) {
                const int slot = part + n * 8 + 2 * t + j;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                  const int row = own + i * 8 + g;
                  float& score = s[n].part[2 * i + j];
                  if (slots.group[slot] != group[row] ||
                      !rule.sees(slots.position[slot], position[row]))
                    score = -INFINITY;
                  else if (bias)
                    score += bias[lines[stage][slot] + row];
                }
              }
#pragma unroll
          for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const int slot = part + n * 8 + 2 * t + j;
              const float log_sum = log_sums[stage][slot], delta = deltas[stage][slot];
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                float &score = s[n].part[2 * i + j], &slope = dp[n].part[2 * i + j];
                const float weight = mma::power_of_two(score * kLog2E - log_sum);
                const float stays = !drops ? 1 : stay[i][2 * n + j] ? dropped.factor : 0;
                score = weight * stays;                    // of values
                slope = weight * (slope * stays - delta);  // ds
              }
            }
          const auto p = mma::a_of<T>(s[0], s[1]), ds = mma::a_of<T>(dp[0], dp[1]);
#pragma unroll
          for (int n = 0; n < kWidth / 16; ++n) {
            const auto a = mma::b_of_rows(part_slopes + n * 16, kStride),
                       b = mma::b_of_rows(part_queries + n * 16, kStride);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              mma::multiply<T>(dv[0][2 * n + half], p, a.tile[half]);
              mma::multiply<T>(dk[0][2 * n + half], ds, b.tile[half]);
            }
          }
        }
      });

  if (parts > 1) {
    const int64_t row =
        (part_of_list * task.batch * task.heads + place.both) * task.keys + first + own;
    store_part<kWidth>(dk, all.dk_parts + row * width, rows - own, width);
    store_part<kWidth>(dv, all.dv_parts + row * value_width, rows - own, value_width);
    return;
  }
  const float one[1][2] = {{1, 1}};
  store_rows<T, kWidth, 1>(dk, one, keys + own * kStride,
                           place.rows<T>(all.dk) + (first + own) * all.dk.token, all.dk.token,
                           rows - own, width);
  store_rows<T, kWidth, 1>(dv, one, values + own * kStride,
                           place.rows<T>(all.dv) + (first + own) * all.dv.token, all.dv.token,
                           rows - own, value_width);
}

// Warps that hold `tokens` tokens of a block, kRows each.
int warps_for(int64_t block, int64_t tokens, int rows) {
  const int64_t longest = block < tokens ? block : tokens, wanted = (longest + rows - 1) / rows;
  return wanted < kMostWarps ? static_cast<int>(wanted) : kMostWarps;
}

template <class T, int kWidth, bool kMore>
void launch(const BlockSoftmaxBackward& all, cudaStream_t stream) {
  const auto& task = all.past;
  const auto tiles = [](int64_t block, int rows) { return (block + rows - 1) / rows; };
  const auto bytes = [](int rows) {
    return static_cast<int>(sizeof(T)) * mma::padded(kWidth) * (2 * rows + 4 * kTile);
  };
  constexpr int kRows = kRowsOf<kWidth> * 16;
  const int warps = warps_for(task.query_block, task.queries, kRows), rows = warps * kRows;
  cudaFuncSetAttribute(query_gradient<T, kWidth, kMore>,
                       cudaFuncAttributeMaxDynamicSharedMemorySize, bytes(rows));
  query_gradient<T, kWidth, kMore><<<static_cast<unsigned>(task.batch * task.heads * task.blocks *
                                                           tiles(task.query_block, rows)),
                                     warps * 32, bytes(rows), stream>>>(all);

  const int key_warps = warps_for(task.key_block, task.keys, 16), key_rows = key_warps * 16;
  const int64_t key_blocks = (task.keys + task.key_block - 1) / task.key_block;
  const dim3 grid(
      static_cast<unsigned>(task.batch * task.heads * key_blocks * tiles(task.key_block, key_rows)),
      static_cast<unsigned>(all.parts));
  cudaFuncSetAttribute(key_gradient<T, kWidth, kMore>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       bytes(key_rows));
  key_gradient<T, kWidth, kMore><<<grid, key_warps * 32, bytes(key_rows), stream>>>(all);
}

}  // namespace

// As many as keep a large GPU busy, where lists are long enough.
int64_t block_softmax_parts(const BlockSoftmax& task) noexcept {
  constexpr int64_t kBusy = 528, kLeastTiles = 4;
  const int64_t key_blocks = (task.keys + task.key_block - 1) / task.key_block;
  const int64_t held = warps_for(task.key_block, task.keys, 16) * 16;
  const int64_t running =
      task.batch * task.heads * key_blocks * ((task.key_block + held - 1) / held);
  const int64_t tiles =
      task.blocks * task.listed * task.query_block / (kTile * key_blocks * kLeastTiles);
  const int64_t wanted = kBusy / running;
  const int64_t parts = wanted < tiles ? wanted : tiles;
  return parts < 1 ? 1 : parts;
}

void block_softmax_backward_cuda(const BlockSoftmaxBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kWidth, bool kMore>() {
    launch<T, kWidth, kMore>(task, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace longbow::kernels

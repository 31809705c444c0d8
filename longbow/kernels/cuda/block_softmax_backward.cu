// Backward, in two kernels that form the weights w again. With g = dout and delta = sum_d g out -
// dlog_sum,
//   ds_ij = w_ij (g_i . v_j - delta_i),   dq_i = sum_j ds_ij k_j,
//   dk_j = sum_i ds_ij q_i,   dv_j = sum_i w_ij g_i,
// where dq and dk are multiplied by the scale of the scores at the end.
// The first kernel holds queries while keys pass by, the second one keys while queries pass by; the
// latter reads which blocks of queries list a block of keys. Tiles are worked off 16 slots at a
// time. Sums are always made in one order.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/block_tiles.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

// The logarithm to base 2 that weights are relative to.
__device__ float base_of(float log_sum) {
  return log_sum == -INFINITY ? 0 : log_sum * kLog2E;
}

// delta of the queries that are held, in shared and in global memory.
template <class T, int kWidth>
__device__ void find_delta(const BlockSoftmaxBackward& all, const Held& held, int most,
                           float* delta) {
  constexpr int kPacks = kWidth / 8;
  const auto& task = all.past;
  const auto& place = held.place;
  const T *out = place.rows<T>(task.out), *dout = place.rows<T>(all.dout);
  for (int i = static_cast<int>(threadIdx.x); i < most * kPacks; i += blockDim.x) {
    const int row = i / kPacks, column = i % kPacks * 8, query = held.first + row;
    float sum = 0;
    if (row < held.rows && column < task.value_width) {
      const auto a = *reinterpret_cast<const uint4*>(out + query * task.out.token + column),
                 b = *reinterpret_cast<const uint4*>(dout + query * all.dout.token + column);
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
    if (row < held.rows) {
      sum -= all.dlog_sum[place.both * task.queries + query];
      all.delta[place.both * task.queries + query] = sum;
    }
    delta[row] = sum;
  }
}

// What the queries of a warp need of their rows.
template <int kRows>
struct RowSums {
  float delta[kRows][2], base[kRows][2];

  // `own` is the warp's first row.
  __device__ RowSums(const BlockSoftmax& task, const Held& held, int own, const float* deltas) {
    const float* log_sum = task.log_sum + held.place.both * task.queries + held.first;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = own + m * 16 + i * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
        delta[m][i] = deltas[row];
        base[m][i] = row < held.rows ? base_of(log_sum[row]) : 0;
      }
  }

  // Scores become ds; dp is g . v. The weight of the thread's first query and slot stands at
  // `first`, that of the next query `line` further.
  template <int kMore>
  __device__ __forceinline__ void differentiate(mma::C (&score)[kRows][2],
                                                const mma::C (&dp)[kRows][2],
                                                const Dropped& dropped, int64_t first, int64_t line,
                                                float* dbias) const {
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t place = first + (m * 16 + i * 8) * line;
        bool stay[2][2];
        if (kMore && dropped.some) dropped.two_tiles(place, stay);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            float& one = score[m][n].part[2 * i + j];
            const bool seen = one > -INFINITY;
            const float weight = mma::power_of_two(one * kLog2E - base[m][i]);
            float slope = dp[m][n].part[2 * i + j];
            if (kMore && dropped.some) slope *= stay[n][j] ? dropped.factor : 0;
            one = weight * (slope - delta[m][i]);
            if (kMore && dbias && seen) dbias[place + n * 8 + j] = one;
          }
      }
  }
};

// The gradient of a bias by distance. A distance between the ends is that of one pair, which is
// written at once; those at both ends are of many, and are summed.
template <int kRows>
struct SumsByDistance {
  float* rows;  // of the queries that are held, or null
  float end[kRows][2][2];

  __device__ explicit SumsByDistance(float* to) : rows(to), end{} {}

  template <int kMost>
  __device__ __forceinline__ void add(const mma::C (&ds)[kRows][2], const Slots& slots, int from,
                                      const Marks<kMost>& marks, int own, const Rule& rule,
                                      const AddedScores<2>& of) {
    if (!rows) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, last = of.high - of.low;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = own + m * 16 + i * 8 + g, position = marks.position[row];
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int slot = from + n * 8 + 2 * t + j, place = slots.position[slot];
            if (slots.group[slot] != marks.group[row] || !rule.sees(position, place)) continue;
            const float one = ds[m][n].part[2 * i + j];
            const int label = of.label(place - position);
            const bool inner = label > 0 && label < last;
            if (inner) rows[of.line(row) + label] = one;
            end[m][i][0] += label == 0 ? one : 0;
            end[m][i][1] += label > 0 && !inner ? one : 0;
          }
      }
  }
  __device__ void store(int own, int held, const AddedScores<2>& of) const {
    if (!rows) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, last = of.high - of.low;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          float sum = end[m][i][side];
          sum += __shfl_xor_sync(0xffffffffu, sum, 1);
          sum += __shfl_xor_sync(0xffffffffu, sum, 2);
          const int row = own + m * 16 + i * 8 + g;
          if (t == 0 && row < held && (side == 0 || last > 0))
            rows[of.line(row) + side * last] = sum;
        }
  }
};

template <class T, int kWidth, int kMore, int kRows>
__global__ void __launch_bounds__(kMostThreads) query_gradient(BlockSoftmaxBackward all) {
  constexpr int kStride = mma::padded(kWidth);
  constexpr int kBuffer = kTile * kStride, kMost = kMostWarps * kRows * 16;
  const auto& task = all.past;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int most = static_cast<int>(blockDim.x / 32) * kRows * 16, own = warp * kRows * 16;
  const Held held(blockIdx.x, task.heads, task.queries, task.query_block, most);
  const auto& place = held.place;
  if (held.rows <= 0) return;

  unsigned char* const memory = dynamic_memory();
  __shared__ Walk walk;
  __shared__ Marks<kMost> marks;
  __shared__ float deltas[kMost];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const slopes = queries + most * kStride;  // dout
  const Dropped dropped(task);
  const auto passing = keys_of(task, held);
  T* const keys = slopes + most * kStride;
  T* const values = keys + passing.cut.buffers() * kBuffer;
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto own_token = [&](int row) { return row < held.rows ? held.first + row : -1; };
  load_rows<kWidth>(queries, place.rows<T>(task.q), task.q.token, most, width, own_token);
  load_rows<kWidth>(slopes, place.rows<T>(all.dout), all.dout.token, most, value_width, own_token);
  mma::commit_copies();
  marks.fill(queries_of(task, place), held, most);
  find_delta<T, kWidth>(all, held, most, deltas);
  __syncthreads();

  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const AddedScores<kMore> added(task, place);
  const WeightPlaces weights(task, held);
  const RowSums<kRows> sums(task, held, own, deltas);
  mma::A q[kRows][kWidth / 16], g[kRows][kWidth / 16];
  mma::C dq[kRows][kWidth / 8] = {};
  SumsByDistance<kRows> by_distance(
      kMore == 2 && all.dbias
          ? all.dbias + added.line(static_cast<int>(place.both) * static_cast<int>(task.queries) +
                                   held.first)
          : nullptr);
  bool fresh = true;
  each_tile(
      walk, passing, 0, passing.cut.tiles(),
      [&](int stage, int tile) { passing.describe(walk.slots[stage], tile, nothing_more); },
      [&](int stage, int buffer) {
        const auto token = [&](int slot) { return walk.slots[stage].token[slot]; };
        load_rows<kWidth>(keys + buffer * kBuffer, k, task.k.token, kTile, width, token);
        load_rows<kWidth>(values + buffer * kBuffer, v, task.v.token, kTile, value_width, token);
      },
      [&](int stage, int buffer, int tile) {
        const auto& slots = walk.slots[stage];
        if (fresh) {
          load_left(q, queries + own * kStride);
          scale_left<T>(q, task.scale);
          load_left(g, slopes + own * kStride);
        }
        fresh = false;
        const int64_t column = passing.cut.column(tile);
        const bool hidden = added.some() || !slots.all_visible();
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16) {
          const T *part_keys = keys + buffer * kBuffer + part * kStride,
                  *part_values = values + buffer * kBuffer + part * kStride;
          mma::C s[kRows][2] = {}, dp[kRows][2] = {};
          add_products<T>(s, q, part_keys);
          scale_scores(s, task.factor);
          add_products<T>(dp, g, part_values);
          if (hidden)
            hide<true>(s, slots, part, marks, own, passing.rule, [&](int row, int slot, int ahead) {
              return added.of(held.first + row, slots.token[slot], ahead,
                              weights.in_head(row) + column + slot);
            });
          sums.template differentiate<kMore>(
              s, dp, dropped, weights.in_all(own + lane / 4) + column + part + lane % 4 * 2,
              weights.line, kMore == 1 ? all.dbias : nullptr);
          if constexpr (kMore == 2)
            by_distance.add(s, slots, part, marks, own, passing.rule, added);
          mma::A ds[kRows];
#pragma unroll
          for (int m = 0; m < kRows; ++m) ds[m] = mma::a_of<T>(s[m][0], s[m][1]);
          add_weighed(dq, ds, part_keys);
        }
      });
  if constexpr (kMore == 2) by_distance.store(own, held.rows, added);
  store_rows<T, kWidth, kRows>(dq, queries + own * kStride,
                               place.rows<T>(all.dq) + (held.first + own) * all.dq.token,
                               all.dq.token, held.rows - own, width, task.scale * task.factor);
}

// Of the queries of a tile: what their weights are relative to, their delta, and where their
// weights for the keys that are held begin.
struct QuerySlots {
  float base[kTile], delta[kTile];
  int64_t line[kTile];
};

// The scores s and g . v = dp of the keys of a warp and 16 slots become the weights of values and
// ds.
template <int kMore>
__device__ __forceinline__ void differentiate(mma::C (&s)[1][2], mma::C (&dp)[1][2],
                                              const QuerySlots& slots, int part,
                                              const Dropped& dropped, int64_t first) {
  const int t = threadIdx.x % 4;
  bool stay[2][4];
  if (kMore && dropped.some)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int64_t index[4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        index[n] = first + slots.line[part + n / 2 * 8 + 2 * t + n % 2] + i * 8;
      dropped.four_lines(index, stay[i]);
    }
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int slot = part + n * 8 + 2 * t + j;
      const float base = slots.base[slot], delta = slots.delta[slot];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float &score = s[0][n].part[2 * i + j], &slope = dp[0][n].part[2 * i + j];
        const float weight = mma::power_of_two(score * kLog2E - base);
        const float stays = !kMore || !dropped.some ? 1 : stay[i][2 * n + j] ? dropped.factor : 0;
        score = weight * stays;
        slope = weight * (slope * stays - delta);
      }
    }
}

// Sums of one warp that others will be added to: rows of [M, width].
template <int kWidth>
__device__ void store_part(const mma::C (&sums)[1][kWidth / 8], float* to, int rows, int width,
                           float scale) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = i * 8 + g;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      if (row < rows && n * 8 < width) {
        float* at = to + int64_t{row} * width + n * 8 + 2 * t;
        at[0] = sums[0][n].part[2 * i] * scale;
        at[1] = sums[0][n].part[2 * i + 1] * scale;
      }
  }
}

// The queries that pass by keys.
__device__ Passing<false> queries_of(const BlockSoftmaxBackward& all, const Held& keys) {
  const auto& task = all.past;
  const int64_t* const starts = keys.place.of(all.first) + keys.block;
  return {Cut(static_cast<int>(starts[1] - starts[0]), static_cast<int>(task.query_block)),
          queries_of(task, keys.place),
          keys.place.of(all.order) + starts[0],
          static_cast<unsigned>(task.listed),
          Rule(task),
          keys.first,
          keys.first + keys.rows - 1};
}

template <class T, int kWidth, int kMore>
__global__ void __launch_bounds__(kMostThreads, kWidth > 64 || kMore ? 2 : 3)
    key_gradient(BlockSoftmaxBackward all) {
  constexpr int kStride = mma::padded(kWidth), kBuffer = kTile * kStride;
  const auto& task = all.past;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int most = static_cast<int>(blockDim.x / 32) * 16, own = warp * 16;
  const Held held(blockIdx.x, task.heads, task.keys, task.key_block, most);
  const auto& place = held.place;
  if (held.rows <= 0) return;

  unsigned char* const memory = dynamic_memory();
  __shared__ Walk walk;
  __shared__ Marks<kMostWarps * 16> marks;
  __shared__ QuerySlots of_queries[3];
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + most * kStride;
  T* const queries = values + most * kStride;
  T* const slopes = queries + buffers_of(all) * kBuffer;  // dout

  const Dropped dropped(task);
  const auto passing = queries_of(all, held);
  const auto tokens = keys_of(task, place);
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto own_token = [&](int row) {
    return row < held.rows && tokens.group(held.first + row) != kNobody ? held.first + row : -1;
  };
  load_rows<kWidth>(keys, place.rows<T>(task.k), task.k.token, most, width, own_token);
  load_rows<kWidth>(values, place.rows<T>(task.v), task.v.token, most, value_width, own_token);
  mma::commit_copies();
  const bool hides = __syncthreads_or(marks.fill(tokens, held, most));

  const T *q = place.rows<T>(task.q), *dout = place.rows<T>(all.dout);
  const AddedScores<kMore> added(task, place);
  const int64_t line = task.listed * task.key_block;
  const auto describe_more = [&](QuerySlots& slots, int slot, int token, const Cut::Place& from) {
    const int64_t query = place.both * task.queries + token;
    slots.base[slot] = token < 0 ? 0 : base_of(task.log_sum[query]);
    slots.delta[slot] = token < 0 ? 0 : all.delta[query];
    if (!kMore || token < 0) return;
    const auto entry = static_cast<unsigned>(passing.entries[from.entry]), listed = passing.divisor;
    slots.line[slot] = (entry / listed * task.query_block + from.offset) * line +
                       entry % listed * task.key_block + held.offset;
  };
  mma::A k[1][kWidth / 16], v[1][kWidth / 16];
  mma::C dk[1][kWidth / 8] = {}, dv[1][kWidth / 8] = {};
  bool fresh = true;
  const auto parts = static_cast<int>(all.parts), part_of_list = static_cast<int>(blockIdx.y);
  const int each = (passing.cut.tiles() + parts - 1) / parts;
  each_tile(
      walk, passing, part_of_list * each, min((part_of_list + 1) * each, passing.cut.tiles()),
      [&](int stage, int tile) {
        passing.describe(walk.slots[stage], tile, [&](int slot, int token, const Cut::Place& from) {
          describe_more(of_queries[stage], slot, token, from);
        });
      },
      [&](int stage, int buffer) {
        const auto token = [&](int slot) { return walk.slots[stage].token[slot]; };
        load_rows<kWidth>(queries + buffer * kBuffer, q, task.q.token, kTile, width, token);
        load_rows<kWidth>(slopes + buffer * kBuffer, dout, all.dout.token, kTile, value_width,
                          token);
      },
      [&](int stage, int buffer, int) {
        const auto& slots = walk.slots[stage];
        if (fresh) {
          load_left(k, keys + own * kStride);
          scale_left<T>(k, task.scale);
          load_left(v, values + own * kStride);
        }
        fresh = false;
        const bool hidden = added.some() || hides || !slots.all_visible();
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16) {
          const T *part_queries = queries + buffer * kBuffer + part * kStride,
                  *part_slopes = slopes + buffer * kBuffer + part * kStride;
          mma::C s[1][2] = {}, dp[1][2] = {};
          add_products<T>(s, k, part_queries);
          scale_scores(s, task.factor);
          add_products<T>(dp, v, part_slopes);
          if (hidden)
            hide<false>(s, slots, part, marks, own, passing.rule,
                        [&](int row, int slot, int ahead) {
                          return added.of(slots.token[slot], held.first + row, ahead,
                                          of_queries[stage].line[slot] + row);
                        });
          differentiate<kMore>(s, dp, of_queries[stage], part, dropped,
                               place.both * task.blocks * task.query_block * line + own + lane / 4);
          const mma::A w[1] = {mma::a_of<T>(s[0][0], s[0][1])},
                       ds[1] = {mma::a_of<T>(dp[0][0], dp[0][1])};
          add_weighed(dv, w, part_slopes);
          add_weighed(dk, ds, part_queries);
        }
      });

  if (parts > 1) {
    const int64_t row =
        (part_of_list * task.batch * task.heads + place.both) * task.keys + held.first + own;
    store_part<kWidth>(dk, all.dk_parts + row * width, held.rows - own, width,
                       task.scale * task.factor);
    store_part<kWidth>(dv, all.dv_parts + row * value_width, held.rows - own, value_width, 1);
    return;
  }
  store_rows<T, kWidth, 1>(dk, keys + own * kStride,
                           place.rows<T>(all.dk) + (held.first + own) * all.dk.token, all.dk.token,
                           held.rows - own, width, task.scale * task.factor);
  store_rows<T, kWidth, 1>(dv, values + own * kStride,
                           place.rows<T>(all.dv) + (held.first + own) * all.dv.token, all.dv.token,
                           held.rows - own, value_width);
}

template <class T, int kWidth>
int bytes_of(int rows, int buffers) {
  return static_cast<int>(sizeof(T)) * mma::padded(kWidth) * (2 * rows + 2 * buffers * kTile);
}

template <class T, int kWidth, int kMore, int kRows>
void launch_queries(const BlockSoftmaxBackward& all, void* stream) {
  const auto& task = all.past;
  const int warps = warps_for(task.query_block, task.queries, kRows * 16),
            rows = warps * kRows * 16, bytes = bytes_of<T, kWidth>(rows, buffers_of(task));
  const int64_t tiles = task.batch * task.heads * Held::tiles(task.queries, task.query_block, rows);
  launch(query_gradient<T, kWidth, kMore, kRows>, static_cast<unsigned>(tiles), warps * 32, bytes,
         stream, all);
}

template <class T, int kWidth, int kMore>
void launch_keys(const BlockSoftmaxBackward& all, void* stream) {
  const auto& task = all.past;
  const int warps = warps_for(task.key_block, task.keys, 16), rows = warps * 16,
            bytes = bytes_of<T, kWidth>(rows, buffers_of(all));
  const int64_t tiles = task.batch * task.heads * Held::tiles(task.keys, task.key_block, rows);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(all.parts));
  launch(key_gradient<T, kWidth, kMore>, grid, warps * 32, bytes, stream, all);
}

}  // namespace

// As many as keep a large GPU busy, where lists are long enough.
int64_t block_softmax_parts(const BlockSoftmax& task) noexcept {
  constexpr int64_t kBusy = 528, kLeastTiles = 4;
  const int rows = warps_for(task.key_block, task.keys, 16) * 16;
  const int64_t running = task.batch * task.heads * Held::tiles(task.keys, task.key_block, rows);
  const int64_t key_blocks = (task.keys + task.key_block - 1) / task.key_block;
  const int64_t tiles =
      task.blocks * task.listed * task.query_block / (kTile * key_blocks * kLeastTiles);
  const int64_t wanted = kBusy / running, parts = wanted < tiles ? wanted : tiles;
  return parts < 1 ? 1 : parts;
}

void block_softmax_backward_cuda(const BlockSoftmaxBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kWidth, int kMore>() {
    with_rows<kWidth>(task.past,
                      [&]<int kRows>() { launch_queries<T, kWidth, kMore, kRows>(task, stream); });
    launch_keys<T, kWidth, kMore>(task, stream);
  });
}

}  // namespace longbow::kernels

// Backward, in two kernels that form the weights w again. With g = dout and delta = sum_d g out -
// dlog_sum,
//   ds_ij = w_ij (g_i . v_j - delta_i),   dq_i = sum_j ds_ij k_j,
//   dk_j = sum_i ds_ij q_i,   dv_j = sum_i w_ij g_i,
// where dq and dk are multiplied by the scale of the scores at the end.
// The first kernel holds queries while keys pass by, the second one keys while queries pass by; the
// latter reads which blocks of queries list a block of keys. Tiles are worked off in parts. Sums
// are always made in one order.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/block_tiles.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

// Pairs of tiles of 8 slots that are worked off at once: as many as registers have room for.
template <int kMore>
constexpr int kPairs = kMore > 0 ? 1 : 2;

// Where what belongs to the results of a query stands: by place, or, with orders, by token.
template <int kMore>
__device__ int64_t result_of(const BlockSoftmax& task, const HeadPlace& place, int at, int token) {
  if (kMore != kOrders) return place.both * task.queries + at;
  return (place.both / task.places.orders) * task.places.tokens + token;
}

// The logarithm to base 2 that weights are relative to.
__device__ float base_of(float log_sum) {
  return log_sum == -INFINITY ? 0 : log_sum * kLog2E;
}

// delta of the queries that are held, in shared and in global memory.
template <class T, int kWidth, int kMore>
__device__ void find_delta(const BlockSoftmaxBackward& all, const Held& held, int most,
                           const Tokens<kMore>& tokens, float* delta) {
  constexpr int kPacks = kWidth / 8;
  const auto& task = all.past;
  const auto& place = held.place;
  const T *out = place.rows<T>(all.out), *dout = place.rows<T>(all.dout);
  for (int i = static_cast<int>(threadIdx.x); i < most * kPacks; i += blockDim.x) {
    const int row = i / kPacks, column = i % kPacks * 8, query = held.first + row;
    const int token = row < held.rows ? tokens.token(query) : -1;
    float sum = 0;
    if (token >= 0 && column < task.value_width) {
      const auto a = *reinterpret_cast<const uint4*>(out + token * all.out.token + column),
                 b = *reinterpret_cast<const uint4*>(dout + token * all.dout.token + column);
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
    if (token >= 0) {
      sum -= all.dlog_sum[result_of<kMore>(task, place, query, token)];
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
  template <int kMore>
  __device__ RowSums(const BlockSoftmax& task, const Held& held, const Tokens<kMore>& tokens,
                     int own, const float* deltas) {
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = own + m * 16 + i * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
        const int query = held.first + row, token = row < held.rows ? tokens.token(query) : -1;
        delta[m][i] = deltas[row];
        base[m][i] =
            token < 0 ? 0 : base_of(task.log_sum[result_of<kMore>(task, held.place, query, token)]);
      }
  }

  // Scores times `unit` are logarithms to base 2 of weights; they become ds, where dp is g . v. The
  // weight of the thread's first query and slot stands at `first`, that of the next query `line`
  // further.
  template <int kMore, int kTiles>
  __device__ __forceinline__ void differentiate(mma::C (&score)[kRows][kTiles],
                                                const mma::C (&dp)[kRows][kTiles], float unit,
                                                const Dropped& dropped, int64_t first, int64_t line,
                                                float* dbias) const {
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int pair = 0; pair < kTiles / 2; ++pair) {
          const int64_t place = first + (m * 16 + i * 8) * line + pair * 16;
          bool stay[2][2];
          if (kDrops<kMore> && dropped.some) dropped.two_tiles(place, stay);
#pragma unroll
          for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              float& one = score[m][2 * pair + n].part[2 * i + j];
              const bool seen = one > -INFINITY;
              const float weight = mma::power_of_two(one * unit - base[m][i]);
              float slope = dp[m][2 * pair + n].part[2 * i + j];
              if (kDrops<kMore> && dropped.some) slope *= stay[n][j] ? dropped.factor : 0;
              one = weight * (slope - delta[m][i]);
              if (kMore == kBias && dbias && seen) dbias[place + n * 8 + j] = one;
            }
        }
  }
};

// The gradient of a bias by distance. A distance between the ends is that of one pair, which is
// written at once; those at both ends are of many, and are summed.
template <class Number, int kRows>
struct SumsByDistance {
  Number* rows;  // of the queries that are held, or null
  float end[kRows][2][2];

  __device__ explicit SumsByDistance(Number* to) : rows(to), end{} {}

  template <int kMore, int kTiles, int kMost, class Added>
  __device__ __forceinline__ void add(const mma::C (&ds)[kRows][kTiles], const Slots& slots,
                                      int from, const Marks<kMost>& marks, int own,
                                      const Rule<kMore>& rule, const Added& of) {
    if (!rows) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, last = of.high - of.low;
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = own + m * 16 + i * 8 + g, position = marks.position[row],
                  group = marks.group[row];
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int slot = from + n * 8 + 2 * t + j;
            const int place = rule.place(slots.position[slot], slots.group[slot], group);
            if (!rule.sees(position, group, slots.position[slot], slots.group[slot])) continue;
            const float one = ds[m][n].part[2 * i + j];
            const int label = of.label(place - position);
            const bool inner = label > 0 && label < last;
            if (inner) rows[of.line(row) + label] = static_cast<Number>(one);
            end[m][i][0] += label == 0 ? one : 0;
            end[m][i][1] += label > 0 && !inner ? one : 0;
          }
      }
  }
  template <class Added>
  __device__ void store(int own, int held, const Added& of) const {
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
            rows[of.line(row) + side * last] = static_cast<Number>(sum);
        }
  }
};

// The same where queries read windows: `to` has the numbers of all.
template <class T, int kRows, int kTiles>
__device__ __forceinline__ void store_windows(T* to, const mma::C (&ds)[kRows][kTiles],
                                              const Slots& slots, int from,
                                              const Window (&window)[kRows][2]) {
  if (!to) return;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int position = slots.position[from + n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + j];
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (window[m][i].sees(position))
            to[window[m][i].base + position] = static_cast<T>(ds[m][n].part[2 * i + j]);
    }
}

template <class T, int kWidth, int kMore, int kRows>
__global__ void __launch_bounds__(kMostThreads,
                                  kWidth <= 64 && !kDrops<kMore> && kRows == 1 ? 3 : 2)
    query_gradient(BlockSoftmaxBackward all) {
  constexpr int kStride = mma::padded(kWidth);
  constexpr int kBuffer = kTile * kStride, kMost = kMostWarps * kRows * 16;
  const auto& task = all.past;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int most = static_cast<int>(blockDim.x / 32) * kRows * 16, own = warp * kRows * 16;
  const Held held(blockIdx.x, task, task.queries, task.query_block, most);
  const auto& place = held.place;
  if (held.rows <= 0) return;

  unsigned char* const memory = dynamic_memory();
  __shared__ Walk walk;
  __shared__ Marks<kMost> marks;
  __shared__ float deltas[kMost];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const slopes = queries + most * kStride;  // dout
  const Dropped dropped(task);
  const auto passing = keys_of<kMore>(task, held);
  T* const keys = slopes + most * kStride;
  T* const values = keys + passing.cut.buffers() * kBuffer;
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto tokens = queries_of<kMore>(task, place);
  const auto own_token = [&](int row) {
    return row < held.rows ? tokens.token(held.first + row) : -1;
  };
  load_rows<kWidth>(queries, place.rows<T>(task.q), task.q.token, most, width, own_token);
  load_rows<kWidth>(slopes, place.rows<T>(all.dout), all.dout.token, most, value_width, own_token);
  mma::commit_copies();
  marks.fill(tokens, held, most);
  find_delta<T, kWidth, kMore>(all, held, most, tokens, deltas);
  __syncthreads();

  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const AddedScores<T, kMore> added(task, place);
  const WeightPlaces weights(task, held);
  const RowSums<kRows> sums(task, held, tokens, own, deltas);
  mma::A q[kRows][kWidth / 16], g[kRows][kWidth / 16];
  mma::C dq[kRows][kWidth / 8] = {};
  using ByDistance = typename AddedScores<T, kMore>::ByDistance;
  ByDistance* const numbers = kMore >= kDistances && all.dbias
                                  ? static_cast<ByDistance*>(all.dbias) +
                                        place.batch * all.dbias_batch + place.head * all.dbias_head
                                  : nullptr;
  SumsByDistance<ByDistance, kRows> by_distance(numbers ? numbers + added.line(held.first)
                                                        : nullptr);
  bool fresh = true;
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
        if (fresh) {
          load_left(q, queries + own * kStride);
          load_left(g, slopes + own * kStride);
        }
        fresh = false;
        const int64_t column = passing.cut.column(tile);
        const bool hidden = added.some() || !slots.all_visible();
        Window windows[kRows][2];
        if constexpr (kMore == kWindows)
          find_windows(windows, marks, own, held.first, passing.rule, added, slots.of_memory);
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16 * kPairs<kMore>) {
          const T *part_keys = keys + buffer * kBuffer + part * kStride,
                  *part_values = values + buffer * kBuffer + part * kStride;
          mma::C s[kRows][2 * kPairs<kMore>] = {}, dp[kRows][2 * kPairs<kMore>] = {};
          add_products<T>(s, q, part_keys);
          add_products<T>(dp, g, part_values);
          if constexpr (kMore == kWindows)
            show_windows(s, slots, part, windows, added);
          else if (hidden)
            hide<true>(s, slots, part, marks, own, passing.rule,
                       [&](float one, int row, int slot, int ahead) {
                         return added.to(one, held.first + row, slots.token[slot], ahead,
                                         weights.in_head(row) + column + slot);
                       });
          sums.template differentiate<kMore>(
              s, dp, added.unit(), dropped,
              weights.in_all(own + lane / 4) + column + part + lane % 4 * 2, weights.line,
              kMore == kBias ? static_cast<float*>(all.dbias) : nullptr);
          if constexpr (kMore == kWindows)
            store_windows(numbers, s, slots, part, windows);
          else if constexpr (kMore >= kDistances)
            by_distance.add(s, slots, part, marks, own, passing.rule, added);
#pragma unroll
          for (int pair = 0; pair < kPairs<kMore>; ++pair) {
            mma::A ds[kRows];
#pragma unroll
            for (int m = 0; m < kRows; ++m)
              ds[m] = mma::a_of<T>(s[m][2 * pair], s[m][2 * pair + 1]);
            add_weighed(dq, ds, part_keys + pair * 16 * kStride);
          }
        }
      });
  if constexpr (kMore >= kDistances && kMore != kWindows) by_distance.store(own, held.rows, added);
  store_rows<T, kWidth, kRows>(dq, queries + own * kStride,
                               place.rows<T>(all.dq) + (held.first + own) * all.dq.token,
                               all.dq.token, held.rows - own, width, task.scale);
}

// Of the queries of a tile: the logarithms of their sums of weights, their delta, and where their
// weights for the keys that are held begin.
struct QuerySlots {
  float log_sum[kTile], delta[kTile];
  int64_t line[kTile];  // or the base of its window
};

// As hide(), for keys at two positions and the slots of queries with windows from `from` on.
template <int kTiles, class Added>
__device__ __forceinline__ void show_window(mma::C (&score)[1][kTiles], const Slots& slots,
                                            const QuerySlots& queries, int from,
                                            const int (&position)[2], const Added& added) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int slot = from + n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + j;
      const Window window = {slots.position[slot], slots.group[slot],
                             static_cast<int>(queries.line[slot])};
#pragma unroll
      for (int i = 0; i < 2; ++i)
        score[0][n].part[2 * i + j] += added.in_window(window, position[i]);
    }
}

// The scores s, which times `unit` are logarithms to base 2 of weights, and g . v = dp of the keys
// of a warp and some slots become the weights of values and ds.
template <int kMore, int kTiles>
__device__ __forceinline__ void differentiate(mma::C (&s)[1][kTiles], mma::C (&dp)[1][kTiles],
                                              float unit, const QuerySlots& slots, int part,
                                              const Dropped& dropped, int64_t first) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int pair = 0; pair < kTiles / 2; ++pair) {
    const int from = part + pair * 16 + 2 * t;
    bool stay[2][4];
    if (kDrops<kMore> && dropped.some)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int64_t index[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) index[n] = first + slots.line[from + n / 2 * 8 + n % 2] + i * 8;
        dropped.four_lines(index, stay[i]);
      }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int slot = from + n * 8 + j;
        const float base = base_of(slots.log_sum[slot]), delta = slots.delta[slot];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float &score = s[0][2 * pair + n].part[2 * i + j],
                &slope = dp[0][2 * pair + n].part[2 * i + j];
          const float weight = mma::power_of_two(score * unit - base);
          const float stays = !kDrops<kMore> || !dropped.some ? 1
                              : stay[i][2 * n + j]            ? dropped.factor
                                                              : 0;
          score = weight * stays;
          slope = weight * (slope * stays - delta);
        }
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
template <int kMore>
__device__ Passing<false, kMore> queries_of(const BlockSoftmaxBackward& all, const Held& keys) {
  const auto& task = all.past;
  const int64_t* const starts = keys.place.of(all.first) + keys.block;
  return {Cut(static_cast<int>(starts[1] - starts[0]), static_cast<int>(task.query_block)),
          queries_of<kMore>(task, keys.place),
          keys.place.of(all.order) + starts[0],
          static_cast<unsigned>(task.listed),
          Rule<kMore>(task),
          keys.first,
          keys.first + keys.rows - 1};
}

// Which tile of keys a CUDA block has. Where lists may be long, the first tile of each head comes
// before all others: it may be what every query reads, and would be the last to end.
__device__ unsigned tile_of_keys(const BlockSoftmaxBackward& all, unsigned most) {
  const auto& task = all.past;
  const unsigned heads = static_cast<unsigned>(task.batch * task.heads),
                 tiles = Held::tiles(static_cast<unsigned>(task.keys),
                                     static_cast<unsigned>(task.key_block), most);
  if (all.readers > 0) return blockIdx.x;
  if (blockIdx.x < heads) return blockIdx.x * tiles;
  const unsigned other = blockIdx.x - heads;
  return other / (tiles - 1) * tiles + other % (tiles - 1) + 1;
}

template <class T, int kWidth, int kMore>
__global__ void __launch_bounds__(kMostThreads, kWidth > 64 || kDrops<kMore> ? 2 : 3)
    key_gradient(BlockSoftmaxBackward all) {
  constexpr int kStride = mma::padded(kWidth), kBuffer = kTile * kStride;
  const auto& task = all.past;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int most = static_cast<int>(blockDim.x / 32) * 16, own = warp * 16;
  const Held held(tile_of_keys(all, most), task, task.keys, task.key_block, most);
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
  const auto passing = queries_of<kMore>(all, held);
  const auto tokens = keys_of<kMore>(task, place);
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const auto own_token = [&](int row) {
    const int token = row < held.rows ? tokens.token(held.first + row) : -1;
    return tokens.group(held.first + row, token) != kNobody ? token : -1;
  };
  load_rows<kWidth>(keys, place.rows<T>(task.k), task.k.token, most, width, own_token);
  load_rows<kWidth>(values, place.rows<T>(task.v), task.v.token, most, value_width, own_token);
  mma::commit_copies();
  const bool hides = __syncthreads_or(marks.fill(tokens, held, most));

  const T *q = place.rows<T>(task.q), *dout = place.rows<T>(all.dout);
  const AddedScores<T, kMore> added(task, place);
  const int64_t line = task.listed * task.key_block;
  // The lists of queries name the place of the block of keys among those that each query reads.
  const bool of_memory = held.first >= passing.rule.memory.first_slot;
  const auto line_of = [&](int tile, int slot) {
    const auto from = passing.cut.place(tile, slot);
    const auto entry = static_cast<unsigned>(passing.entries[from.entry]), listed = passing.divisor;
    return (entry / listed * task.query_block + from.offset) * line +
           entry % listed * task.key_block + held.offset;
  };
  mma::A k[1][kWidth / 16], v[1][kWidth / 16];
  mma::C dk[1][kWidth / 8] = {}, dv[1][kWidth / 8] = {};
  bool fresh = true;
  const auto parts = static_cast<int>(all.parts), part_of_list = static_cast<int>(blockIdx.y);
  const int each = (passing.cut.tiles() + parts - 1) / parts;
  each_tile(
      walk, passing, part_of_list * each, min((part_of_list + 1) * each, passing.cut.tiles()),
      [&](int stage, int tile, const auto& run) {
        passing.describe(walk.slots[stage], tile, run, [&](int slot, int at, int token) {
          auto& slots = of_queries[stage];
          const bool there = at >= 0;
          const float* const log_sum =
              task.log_sum + (there ? result_of<kMore>(task, place, at, token) : 0);
          mma::copy_word_async(&slots.log_sum[slot], log_sum, there);
          mma::copy_word_async(&slots.delta[slot],
                               all.delta + (there ? place.both * task.queries + at : 0), there);
          if (kDrops<kMore> && there) slots.line[slot] = line_of(tile, slot);
          if constexpr (kMore == kWindows) {
            auto& seen = walk.slots[stage];
            const auto window = there ? passing.rule.window(seen.position[slot], seen.group[slot],
                                                            added.zero(at), of_memory)
                                      : Window();
            seen.position[slot] = window.from;
            seen.group[slot] = window.span;
            slots.line[slot] = window.base;
          }
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
          load_left(v, values + own * kStride);
        }
        fresh = false;
        const bool hidden = added.some() || hides || !slots.all_visible();
        const int position[2] = {marks.position[own + lane / 4],
                                 marks.position[own + lane / 4 + 8]};
#pragma unroll 1
        for (int part = 0; part < kTile; part += 16 * kPairs<kMore>) {
          const T *part_queries = queries + buffer * kBuffer + part * kStride,
                  *part_slopes = slopes + buffer * kBuffer + part * kStride;
          mma::C s[1][2 * kPairs<kMore>] = {}, dp[1][2 * kPairs<kMore>] = {};
          add_products<T>(s, k, part_queries);
          add_products<T>(dp, v, part_slopes);
          if constexpr (kMore == kWindows)
            show_window(s, slots, of_queries[stage], part, position, added);
          else if (hidden)
            hide<false>(s, slots, part, marks, own, passing.rule,
                        [&](float one, int row, int slot, int ahead) {
                          return added.to(one, slots.token[slot], held.first + row, ahead,
                                          of_queries[stage].line[slot] + row);
                        });
          differentiate<kMore>(s, dp, added.unit(), of_queries[stage], part, dropped,
                               place.both * task.blocks * task.query_block * line + own + lane / 4);
#pragma unroll
          for (int pair = 0; pair < kPairs<kMore>; ++pair) {
            const mma::A w[1] = {mma::a_of<T>(s[0][2 * pair], s[0][2 * pair + 1])},
                         ds[1] = {mma::a_of<T>(dp[0][2 * pair], dp[0][2 * pair + 1])};
            add_weighed(dv, w, part_slopes + pair * 16 * kStride);
            add_weighed(dk, ds, part_queries + pair * 16 * kStride);
          }
        }
      });

  if (parts > 1) {
    const int64_t row =
        (part_of_list * task.batch * task.heads + place.both) * task.keys + held.first + own;
    store_part<kWidth>(dk, all.dk_parts + row * width, held.rows - own, width, task.scale);
    store_part<kWidth>(dv, all.dv_parts + row * value_width, held.rows - own, value_width, 1);
    return;
  }
  store_rows<T, kWidth, 1>(dk, keys + own * kStride,
                           place.rows<T>(all.dk) + (held.first + own) * all.dk.token, all.dk.token,
                           held.rows - own, width, task.scale);
  store_rows<T, kWidth, 1>(dv, values + own * kStride,
                           place.rows<T>(all.dv) + (held.first + own) * all.dv.token, all.dv.token,
                           held.rows - own, value_width);
}

template <class T, int kWidth>
constexpr int bytes_of(int rows, int buffers) {
  return static_cast<int>(sizeof(T)) * mma::padded(kWidth) * (2 * rows + 2 * buffers * kTile);
}

template <class T, int kWidth, int kMore, int kRows>
void launch_queries(const BlockSoftmaxBackward& all, void* stream) {
  const auto& task = all.past;
  const int warps = warps_for(task.query_block, task.queries, kRows * 16),
            rows = warps * kRows * 16, bytes = bytes_of<T, kWidth>(rows, buffers_of(task));
  constexpr int kMost = kMostWarps * kRows * 16;
  static_assert(bytes_of<T, kWidth>(kMost, 2) + sizeof(Walk) + sizeof(Marks<kMost>) + 4 * kMost <=
                block_softmax_memory(kWidth));
  const int64_t tiles = task.batch * task.heads * Held::tiles(task.queries, task.query_block, rows);
  launch(query_gradient<T, kWidth, kMore, kRows>, static_cast<unsigned>(tiles), warps * 32, bytes,
         stream, all);
}

template <class T, int kWidth, int kMore>
void launch_keys(const BlockSoftmaxBackward& all, void* stream) {
  const auto& task = all.past;
  const int warps = warps_for(task.key_block, task.keys, 16), rows = warps * 16,
            bytes = bytes_of<T, kWidth>(rows, buffers_of(all));
  static_assert(bytes_of<T, kWidth>(kTile, 2) + sizeof(Walk) + 4 * sizeof(QuerySlots) <=
                block_softmax_memory(kWidth));  // three of those, and Marks
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

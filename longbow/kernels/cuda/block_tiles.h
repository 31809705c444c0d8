#pragma once
// How the kernels of block_softmax walk over lists of blocks. The threads of a CUDA block hold the
// tokens of one tile; the tokens that these may meet pass by in tiles of 64 slots, which are copied
// to shared memory one tile ahead.
#ifdef __CUDACC__
#include <cstdint>

#include "longbow/kernels/cuda/block_rules.h"
#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/tile_rows.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels::blocks {

// Which of the B H heads, and whose rows it reads.
struct HeadPlace {
  int64_t both, batch, head, source;
  __device__ HeadPlace(unsigned index, unsigned heads, unsigned orders)
      : both(index), batch(index / heads), head(index % heads), source(index % heads / orders) {}
  template <class T>
  __device__ const T* of(const PerHead<T>& x) const {
    return x.data ? x.data + batch * x.batch + head * x.head : nullptr;
  }
  template <class T, class Pointer>
  __device__ auto rows(const StridedRows<Pointer>& x) const {
    constexpr bool result = std::is_same_v<Pointer, void*>;
    using Result = std::conditional_t<result, T*, const T*>;
    return static_cast<Result>(x.data) + batch * x.batch + (result ? head : source) * x.head;
  }
};

// The tokens that a CUDA block holds: of the blocks of a head, cut into tiles, the one with this
// index.
struct Held {
  HeadPlace place;
  int block, offset;  // its block of tokens, and where in it the tile begins
  int first, rows;    // the tokens first … first + rows - 1

  static __host__ __device__ unsigned tiles(unsigned tokens, unsigned block, unsigned rows) {
    return (tokens + block - 1) / block * ((block + rows - 1) / rows);
  }
  // All are below 2^31: divisions of 64 bits would take longer than some tiles.
  __device__ Held(unsigned index, const BlockSoftmax& task, unsigned tokens, unsigned size,
                  unsigned most)
      : place(index / tiles(tokens, size, most), static_cast<unsigned>(task.heads),
              static_cast<unsigned>(task.places.orders)) {
    const unsigned each = (size + most - 1) / most;
    block = static_cast<int>(index % tiles(tokens, size, most) / each);
    offset = static_cast<int>(index % each * most);
    first = block * static_cast<int>(size) + offset;
    rows = min(min(static_cast<int>(most), static_cast<int>(size) - offset),
               static_cast<int>(tokens) - first);
  }
};

// Who stands at which place, and what visibility asks of them.
template <int kMore>
struct Tokens {
  int count, known;  // places and tokens
  const int64_t *at, *positions, *groups;
  const bool* keep;
  MemoryOf<kMore> memory;
  bool queries;  // or keys

  // -1 where nobody stands.
  __device__ int token(int place) const {
    if (kMore != kOrders) return place;
    const auto found = static_cast<unsigned>(at[place]);
    return found < static_cast<unsigned>(known) ? static_cast<int>(found) : -1;
  }
  __device__ int position(int place, int token) const {
    if (memory.tokens > 0 && !queries && token >= memory.first_slot)
      return token - memory.first_slot;
    return positions ? static_cast<int>(positions[place]) : token;
  }
  __device__ int group(int place, int token) const {
    if (token < 0 || (keep && !keep[token])) return kNobody;
    if (memory.tokens > 0) return queries ? memory.left(token) : token >= memory.first_slot;
    return groups ? static_cast<int>(groups[place]) : 0;
  }
};

// What visibility asks of the tokens that are held.
template <int kMost>
struct Marks {
  int position[kMost], group[kMost];

  // For `most` rows, of which those behind the tile are hidden; returns whether this thread met one
  // that is.
  template <class Tokens>
  __device__ bool fill(const Tokens& tokens, const Held& held, int most) {
    bool hides = false;
    for (int row = static_cast<int>(threadIdx.x); row < most; row += blockDim.x) {
      const int at = held.first + row, token = row < held.rows ? tokens.token(at) : -1;
      const int of = tokens.group(at, token);
      position[row] = of == kNobody ? kNowhere : tokens.position(at, token);
      group[row] = of == kNobody ? kHidden : of;
      hides = hides || of == kNobody;
    }
    return hides;
  }
};

// A list of `entries` blocks of `block` tokens, cut into tiles: a long block has several, short
// blocks share one.
struct Cut {
  int entries, block, packed, each;
  __host__ __device__ Cut(int listed, int tokens)
      : entries(listed),
        block(tokens),
        packed(tokens < kTile ? kTile / tokens : 1),
        each((tokens + kTile - 1) / kTile) {}
  __host__ __device__ int tiles() const { return (entries + packed - 1) / packed * each; }
  // Of which copies are made: while one tile is used, the next one arrives.
  __host__ __device__ int buffers() const { return tiles() > 1 ? 2 : 1; }

  struct Place {
    int entry, offset;  // entry -1: no token
  };
  __device__ Place place(int tile, int slot) const {
    if (block >= kTile) {
      const int offset = tile % each * kTile + slot;
      return {offset < block ? tile / each : -1, offset};
    }
    const int entry = tile * packed + slot / block;
    return {slot < packed * block && entry < entries ? entry : -1, slot % block};
  }
  // The place of slot 0 when the blocks of the list stand beside each other; others follow it.
  __device__ int64_t column(int tile) const {
    return block >= kTile ? int64_t{tile / each} * block + tile % each * kTile
                          : int64_t{tile} * packed * block;
  }
};

struct Slots {
  int token[kTile], position[kTile], group[kTile];
  bool of_memory;  // whether keys are slots of a memory
  int whole[2];    // whether all pairs of 32 slots are visible
  __device__ bool all_visible() const { return whole[0] && whole[1]; }
};

// The list of one block, beside the tokens first … last that read it (keys) or are read by it.
template <bool keys, int kMore>
struct Passing {
  Cut cut;
  Tokens<kMore> tokens;
  const int64_t* entries;
  unsigned divisor;  // an entry, divided by it, is the number of a block
  Rule<kMore> rule;
  int first, last;

  // The first token of a block in the list; -1 where there is none.
  __device__ int start(int entry) const {
    const int64_t number = entries[entry];
    if (number < 0) return -1;
    const int64_t token = int64_t{static_cast<unsigned>(number) / divisor} * cut.block;
    return token < tokens.count ? static_cast<int>(token) : -1;
  }
  // The tokens of a tile that is part of one block.
  struct Run {
    int first, count;
  };
  __device__ Run run(int tile) const {
    const int from = start(tile / cut.each), offset = tile % cut.each * kTile;
    const int left = min(cut.block - offset, tokens.count - from - offset);
    return {from + offset, from < 0 ? 0 : min(left, kTile)};
  }
  __device__ bool meets(const Run& run) const {
    const int last_one = run.first + run.count - 1;
    return run.count > 0 && (keys ? rule.some(first, last, run.first, last_one)
                                  : rule.some(run.first, last_one, first, last));
  }
  // Of the blocks that share a tile.
  __device__ bool meets(int tile) const {
    for (int i = 0; i < cut.packed; ++i) {
      const auto place = cut.place(tile, i * cut.block);
      const int from = place.entry < 0 ? -1 : start(place.entry);
      if (from >= 0 && meets(Run{from, min(cut.block, tokens.count - from)})) return true;
    }
    return false;
  }
  // body(slot, at, token) for every slot, where `at` is the place of its token, or -1 where there
  // is none. `run` is that of the tile where blocks share none.
  template <class F>
  __device__ __forceinline__ void describe(Slots& slots, int tile, const Run& run,
                                           const F& body) const {
    for (int slot = static_cast<int>(threadIdx.x); slot < kTile; slot += blockDim.x) {
      int at = slot < run.count ? run.first + slot : -1;
      if (cut.packed > 1) at = place_in(cut.place(tile, slot));
      int token = at < 0 ? -1 : tokens.token(at);
      const int group = tokens.group(at, token);
      if (group == kNobody) at = token = -1;
      slots.token[slot] = token;
      slots.position[slot] = token < 0 ? kNowhere : tokens.position(at, token);
      if (slot == 0) slots.of_memory = keys && run.first >= rule.memory.first_slot;
      slots.group[slot] = group;
      const bool visible = token >= 0 && (keys ? rule.every(first, last, token, token)
                                               : rule.every(token, token, first, last));
      const bool whole = __all_sync(0xffffffffu, visible);
      if (slot % 32 == 0) slots.whole[slot / 32] = whole;
      body(slot, at, token);
    }
  }

 private:
  __device__ int place_in(const Cut::Place& place) const {
    const int from = place.entry < 0 ? -1 : start(place.entry);
    return from < 0 || from + place.offset >= tokens.count ? -1 : from + place.offset;
  }
};

// What queries may meet, or are.
template <int kMore>
__device__ inline Tokens<kMore> queries_of(const BlockSoftmax& task, const HeadPlace& place) {
  return {static_cast<int>(task.queries), static_cast<int>(task.places.tokens),
          place.of(task.places.at),       place.of(task.query_positions),
          place.of(task.query_groups),    nullptr,
          MemoryOf<kMore>(task.memory),   true};
}
template <int kMore>
__device__ inline Tokens<kMore> keys_of(const BlockSoftmax& task, const HeadPlace& place) {
  return {static_cast<int>(task.keys),  static_cast<int>(task.places.tokens),
          place.of(task.places.at),     place.of(task.key_positions),
          place.of(task.key_groups),    place.of(task.keep),
          MemoryOf<kMore>(task.memory), false};
}
// The keys that pass by queries.
template <int kMore>
__device__ inline Passing<true, kMore> keys_of(const BlockSoftmax& task, const Held& queries) {
  return {Cut(static_cast<int>(task.listed), static_cast<int>(task.key_block)),
          keys_of<kMore>(task, queries.place),
          queries.place.of(task.columns) + queries.block * task.listed,
          1,
          Rule<kMore>(task),
          queries.first,
          queries.first + queries.rows - 1};
}

// Where weights stand in [U, query_block, S key_block] of one head and of all.
struct WeightPlaces {
  int64_t line, first, head;

  __device__ WeightPlaces(const BlockSoftmax& task, const Held& queries)
      : line(task.listed * task.key_block),
        first((queries.block * task.query_block + queries.offset) * line),
        head(queries.place.both * task.blocks * task.query_block * line) {}
  __device__ int64_t in_head(int row) const { return first + row * line; }
  __device__ int64_t in_all(int row) const { return head + in_head(row); }
};

struct Walk {
  int tile[kMostThreads], first[kMostThreads], tokens[kMostThreads], count[kMostWarps];
  Slots slots[3];
};

// The tiles that are met among as many as there are threads, from `start`, in their order.
template <class Passing>
__device__ int found_tiles(Walk& walk, const Passing& passing, int start, int end) {
  const int tile = start + static_cast<int>(threadIdx.x), warp = threadIdx.x / 32;
  typename Passing::Run run = {0, 0};
  bool met = tile < end;
  if (met && passing.cut.packed > 1) {
    met = passing.meets(tile);
  } else if (met) {
    run = passing.run(tile);
    met = passing.meets(run);
  }
  const unsigned all = __ballot_sync(0xffffffffu, met);
  if (threadIdx.x % 32 == 0) walk.count[warp] = __popc(all);
  __syncthreads();
  int place = __popc(all & ((1u << threadIdx.x % 32) - 1)), count = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) {
    if (w < warp) place += walk.count[w];
    count += walk.count[w];
  }
  if (met) {
    walk.tile[place] = tile;
    walk.first[place] = run.first;
    walk.tokens[place] = run.count;
  }
  __syncthreads();
  return count;
}

// For the tiles begin … end - 1 that are met: describe(stage, tile, run) fills slots[stage],
// load(stage, buffer) begins to copy their rows, use(stage, buffer, tile) has them. There are three
// stages and two buffers: while one tile is used, the next one arrives, and the one after it is
// described. Copies that were begun before have arrived at the first use.
template <class Passing, class Describe, class Load, class Use>
__device__ __forceinline__ void each_tile(Walk& walk, const Passing& passing, int begin, int end,
                                          const Describe& describe, const Load& load,
                                          const Use& use) {
  const auto describe_next = [&](int n) {
    describe(n % 3, walk.tile[n], typename Passing::Run{walk.first[n], walk.tokens[n]});
  };
  for (int start = begin; start < end; start += static_cast<int>(blockDim.x)) {
    const int count = found_tiles(walk, passing, start, end);
    if (count == 0) continue;
    describe_next(0);
    if (count > 1) describe_next(1);
    __syncthreads();
    load(0, 0);
    mma::commit_copies();
    if (count > 1) load(1, 1);
    mma::commit_copies();
    for (int n = 0; n < count; ++n) {
      if (n == 0)
        mma::await_copies<1>();
      else
        mma::await_copies<0>();
      __syncthreads();  // the tile has arrived for all threads, and nobody uses the one before it
      if (n > 0 && n + 1 < count) {
        load((n + 1) % 3, (n + 1) % 2);
        mma::commit_copies();
      }
      if (n + 2 < count) describe_next(n + 2);
      use(n % 3, n % 2, walk.tile[n]);
    }
    __syncthreads();
  }
  mma::await_copies<0>();
  __syncthreads();
}

// What scores of one head are: q . k times a scale, and what is added to that.
template <class T, int kMore>
struct AddedScores {
  using ByDistance = std::conditional_t<(kMore >= kRounded), T, float>;
  const float *pairs, *keys;
  const ByDistance* distances;
  int low, high;
  float scale;
  int64_t stride;

  __device__ AddedScores(const BlockSoftmax& task, const HeadPlace& place)
      : pairs(kMore == kBias ? place.of(task.bias) : nullptr),
        keys(kDrops<kMore> ? place.of(task.key_bias) : nullptr),
        distances(distances_of(task, place)),
        low(static_cast<int>(task.low)),
        high(static_cast<int>(task.high)),
        scale(task.scale),
        stride(task.bias_line) {}
  __device__ bool some() const { return kMore > 0 && (pairs || keys || distances); }
  // The logarithms to base 2 of weights are this times what `to` makes of scores, or times the
  // products themselves where nothing is added.
  __device__ float unit() const { return some() && kMore != kWindows ? kLog2E : kLog2E * scale; }
  // Which of the numbers of a query is that of a key so far ahead.
  __device__ int label(int ahead) const { return min(max(ahead, low), high) - low; }
  __device__ int64_t line(int query) const { return query * stride; }
  // Where the number for distance 0 stands.
  __device__ int zero(int query) const { return static_cast<int>(line(query)) - low; }
  // The score of a query and a key, whose weight stands at `place`.
  __device__ float to(float product, int query, int key, int ahead, int64_t place) const {
    if (!some()) return product;
    float sum = product * scale;
    if (kMore == kBias && pairs) sum += pairs[place];
    if (kMore >= kDistances) sum += static_cast<float>(distances[line(query) + label(ahead)]);
    if (kDrops<kMore> && keys) sum += keys[key];
    return sum;
  }
  // What is added to q . k of a query with a window and the key at a position.
  __device__ float in_window(const Window& window, int position) const {
    return window.sees(position)
               ? static_cast<float>(distances[window.base + position]) * (1 / scale)
               : -INFINITY;
  }

 private:
  static __device__ const ByDistance* distances_of(const BlockSoftmax& task,
                                                   const HeadPlace& place) {
    if constexpr (kMore >= kRounded)
      return reinterpret_cast<const T*>(place.of(task.rounded_bias));
    else
      return kMore == kDistances ? place.of(task.bias) : nullptr;
  }
};

// Scores of the rows of a warp, from `own` on, and the slots from `from` on: score(one, row, slot,
// ahead) is what the score becomes, where the key is so far ahead of the query; what is not seen
// becomes -infinity. Rows are queries and slots keys, or the other way round.
template <bool keys, int kMore, int kRows, int kTiles, int kMost, class Score>
__device__ __forceinline__ void hide(mma::C (&scores)[kRows][kTiles], const Slots& slots, int from,
                                     const Marks<kMost>& marks, int own, const Rule<kMore>& rule,
                                     const Score& score) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  int row_position[kRows][2], row_group[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      row_position[m][i] = marks.position[own + m * 16 + i * 8 + g];
      row_group[m][i] = marks.group[own + m * 16 + i * 8 + g];
    }
  // A window begins so far behind a row and is so long, but for what is near it.
  const auto behind = static_cast<unsigned>(keys ? rule.back : rule.ahead),
             length = static_cast<unsigned>(rule.back) + static_cast<unsigned>(rule.ahead),
             near = static_cast<unsigned>(max(rule.apart, 1) - 1),
             gap = rule.apart > 0 ? 2 * near + 1 : 0;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int slot = from + n * 8 + 2 * t + j;
      const int slot_position = slots.position[slot], slot_group = slots.group[slot];
      bool seen[kRows][2];
      if (rule.simple) {
#pragma unroll
        for (int m = 0; m < kRows; ++m)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const unsigned distance =
                static_cast<unsigned>(slot_position) - static_cast<unsigned>(row_position[m][i]);
            seen[m][i] = (slot_group == row_group[m][i]) & (distance + behind <= length) &
                         (distance + near >= gap);
          }
      } else {
#pragma unroll
        for (int m = 0; m < kRows; ++m)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            seen[m][i] =
                keys ? rule.sees(row_position[m][i], row_group[m][i], slot_position, slot_group)
                     : rule.sees(slot_position, slot_group, row_position[m][i], row_group[m][i]);
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& one = scores[m][n].part[2 * i + j];
          const int position = row_position[m][i], group = row_group[m][i];
          const int ahead = keys ? rule.place(slot_position, slot_group, group) - position
                                 : rule.place(position, group, slot_group) - slot_position;
          one = seen[m][i] ? score(one, own + m * 16 + i * 8 + g, slot, ahead) : -INFINITY;
        }
    }
}

// The windows of the queries of a warp, from `own` on, over keys or slots.
template <int kRows, int kMore, int kMost, class Added>
__device__ __forceinline__ void find_windows(Window (&window)[kRows][2], const Marks<kMost>& marks,
                                             int own, int first, const Rule<kMore>& rule,
                                             const Added& added, bool of_slots) {
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = own + m * 16 + i * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
      window[m][i] =
          rule.window(marks.position[row], marks.group[row], added.zero(first + row), of_slots);
    }
}

// As hide(), for queries with windows and the slots from `from` on; before the products too.
template <int kRows, int kTiles, class Added>
__device__ __forceinline__ void show_windows(mma::C (&score)[kRows][kTiles], const Slots& slots,
                                             int from, const Window (&window)[kRows][2],
                                             const Added& added) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int position = slots.position[from + n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + j];
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          score[m][n].part[2 * i + j] += added.in_window(window[m][i], position);
    }
}

// Which weights stay, by their place in [B, H, U, query_block, S key_block]. Four neighbours are
// drawn at once, so that where they begin at a multiple of four the threads that hold them share
// one draw.
struct Dropped {
  bool some;
  int64_t seed, step;
  uint64_t site;
  float rate, factor;
  bool aligned;

  __device__ explicit Dropped(const BlockSoftmax& task)
      : some(task.key),
        seed(task.key ? task.key[0] : 0),
        step(task.key ? task.key[1] : 0),
        site(task.site),
        rate(static_cast<float>(task.rate)),
        factor(static_cast<float>(1 / (1 - task.rate))),
        aligned(task.key_block % 4 == 0) {}

  __device__ Philox4 drawn(int64_t index) const { return philox_site(seed, step, site, index / 4); }
  __device__ bool stays(uint32_t word) const { return philox_unit(word) >= rate; }
  __device__ bool stays(int64_t index) const {
    const auto four = drawn(index);
    const bool odd = index % 2, high = index % 4 >= 2;
    return stays(high ? (odd ? four.word[3] : four.word[2]) : (odd ? four.word[1] : four.word[0]));
  }

  // Of the C of two tiles [16, 8] beside each other: index, index + 1, index + 8 and index + 9.
  // Threads 2t and 2t + 1 have neighbours: each draws for one of the tiles.
  __device__ void two_tiles(int64_t index, bool (&stay)[2][2]) const {
    if (!aligned) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        stay[0][j] = stays(index + j);
        stay[1][j] = stays(index + 8 + j);
      }
      return;
    }
    const bool odd = threadIdx.x % 2;
    const auto own = drawn(odd ? index + 8 : index);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? own.word[j] : own.word[2 + j], 1);
      stay[0][j] = stays(odd ? other : own.word[j]);
      stay[1][j] = stays(odd ? own.word[2 + j] : other);
    }
  }

  // Of four lines, from the thread's own place in them: index[i] for i < 4. The four threads of
  // neighbouring rows, `row` modulo 4, have neighbours: each draws for one of the lines.
  __device__ void four_lines(const int64_t (&index)[4], bool (&stay)[4]) const {
    if (!aligned) {
#pragma unroll
      for (int i = 0; i < 4; ++i) stay[i] = stays(index[i]);
      return;
    }
    const int row = threadIdx.x % 16 / 4;
    const bool low = row % 2, high = row >= 2;
    auto own = drawn(high ? (low ? index[3] : index[2]) : (low ? index[1] : index[0]));
    exchange(own.word, low, high);  // word i is that of row i ^ row
#pragma unroll
    for (int i = 1; i < 4; ++i) own.word[i] = __shfl_xor_sync(0xffffffffu, own.word[i], 4 * i);
    exchange(own.word, low, high);  // word i is that of line i
#pragma unroll
    for (int i = 0; i < 4; ++i) stay[i] = stays(own.word[i]);
  }

 private:
  // word[i] becomes word[i ^ row].
  static __device__ void exchange(uint32_t (&word)[4], bool low, bool high) {
    const uint32_t a = low ? word[1] : word[0], b = low ? word[0] : word[1],
                   c = low ? word[3] : word[2], d = low ? word[2] : word[3];
    word[0] = high ? c : a;
    word[1] = high ? d : b;
    word[2] = high ? a : c;
    word[3] = high ? b : d;
  }
};

__device__ inline void nothing_more(int, int, int) {}

// Warps that hold up to `tokens` tokens of a block, `rows` each.
inline int warps_for(int64_t block, int64_t tokens, int rows) {
  const int64_t longest = block < tokens ? block : tokens, wanted = (longest + rows - 1) / rows;
  return wanted < kMostWarps ? static_cast<int>(wanted) : kMostWarps;
}

// Of the tiles of keys that pass by queries, and of queries that pass by keys.
inline int buffers_of(const BlockSoftmax& task) {
  return Cut(static_cast<int>(task.listed), static_cast<int>(task.key_block)).buffers();
}
__host__ __device__ inline int buffers_of(const BlockSoftmaxBackward& all) {
  if (all.readers == 0) return 2;
  return Cut(static_cast<int>(all.readers), static_cast<int>(all.past.query_block)).buffers();
}

// Tiles of 16 queries of a warp: two where registers have room for them and a block keeps four
// warps busy.
template <int kWidth, class F>
void with_rows(const BlockSoftmax& task, const F& body) {
  if constexpr (kWidth <= 64)
    if (task.query_block > kTile) return body.template operator()<2>();
  body.template operator()<1>();
}

// Calls body with the type, the widths rounded up, and what there is beside a plain softmax.
template <class F>
void with_shape(const BlockSoftmax& task, const F& body) {
  const int64_t width = task.width > task.value_width ? task.width : task.value_width;
  const auto with_both = [&]<class T, int kWidth>() {
    if (task.places.at.data) return body.template operator()<T, kWidth, kOrders>();
    if (task.windows) return body.template operator()<T, kWidth, kWindows>();
    if (task.rounded_bias.data) return body.template operator()<T, kWidth, kRounded>();
    if (task.low <= task.high) return body.template operator()<T, kWidth, kDistances>();
    if (task.bias.data || task.key_bias.data || task.key)
      return body.template operator()<T, kWidth, kBias>();
    body.template operator()<T, kWidth, kPlain>();
  };
  const auto with_width = [&]<class T>() {
    if (width <= 32) return with_both.template operator()<T, 32>();
    if (width <= 64) return with_both.template operator()<T, 64>();
    with_both.template operator()<T, 128>();
  };
  if (task.type == Element::bfloat16) return with_width.template operator()<__nv_bfloat16>();
  with_width.template operator()<__half>();
}

}  // namespace longbow::kernels::blocks
#endif

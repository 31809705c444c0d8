#pragma once
// How the kernels of block_softmax walk over lists of blocks. The threads of a CUDA block hold the
// tokens of one tile; the tokens that these may meet pass by in tiles of 64 slots, which are copied
// to shared memory one tile ahead.
#ifdef __CUDACC__
#include <climits>
#include <cstdint>

#include "longbow/kernels/block_softmax.h"
#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/tile_rows.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels::blocks {

constexpr int kTile = 64, kMostThreads = 128, kMostWarps = kMostThreads / 32;
constexpr int kNobody = INT_MIN;      // the group of a slot without a token
constexpr int kHidden = kNobody + 1;  // that of a token which is held, but not there or hidden
constexpr float kLog2E = 1.4426950408889634f;

// Which of the B H heads.
struct HeadPlace {
  int64_t both, batch, head;
  __device__ HeadPlace(unsigned index, unsigned heads)
      : both(index), batch(index / heads), head(index % heads) {}
  template <class T>
  __device__ const T* of(const PerHead<T>& x) const {
    return x.data ? x.data + batch * x.batch + head * x.head : nullptr;
  }
  template <class T, class Pointer>
  __device__ auto rows(const StridedRows<Pointer>& x) const {
    using Result = std::conditional_t<std::is_same_v<Pointer, void*>, T*, const T*>;
    return static_cast<Result>(x.data) + batch * x.batch + head * x.head;
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
  __device__ Held(unsigned index, unsigned heads, unsigned tokens, unsigned size, unsigned most)
      : place(index / tiles(tokens, size, most), heads) {
    const unsigned each = (size + most - 1) / most;
    block = static_cast<int>(index % tiles(tokens, size, most) / each);
    offset = static_cast<int>(index % each * most);
    first = block * static_cast<int>(size) + offset;
    rows = min(min(static_cast<int>(most), static_cast<int>(size) - offset),
               static_cast<int>(tokens) - first);
  }
};

// Visibility in 32 bits.
struct Rule {
  int back, ahead, first, apart;
  bool free, by_index, grouped;

  static __device__ int clamped(int64_t x) {
    return x > INT_MAX ? INT_MAX : x < -INT_MAX ? -INT_MAX : static_cast<int>(x);
  }
  __device__ explicit Rule(const BlockSoftmax& task)
      : back(clamped(task.back)),
        ahead(clamped(task.ahead)),
        first(clamped(task.first)),
        apart(clamped(task.apart)),
        free(back == INT_MAX && ahead == INT_MAX && apart <= 0),
        by_index(!task.query_positions.data && !task.key_positions.data),
        grouped(task.query_groups.data) {}

  __device__ bool sees(int i, int j) const {
    const int distance = i - j;
    return (distance <= back || j < first) && distance >= -ahead && abs(distance) >= apart;
  }
  // Some pair, or every one, of the queries i … and the keys j …, the last ones included.
  __device__ bool some(int i_first, int i_last, int j_first, int j_last) const {
    return !by_index ||
           ((i_first - j_last <= back || j_first < first) && i_last - j_first >= -ahead);
  }
  __device__ bool every(int i_first, int i_last, int j_first, int j_last) const {
    if (grouped || free) return !grouped;
    return by_index && (i_last - j_first <= back || j_last < first) && i_first - j_last >= -ahead &&
           (apart <= 0 || j_first - i_last >= apart || i_first - j_last >= apart);
  }
};

// What visibility asks of tokens.
struct Tokens {
  int count;
  const int64_t *positions, *groups;
  const bool* keep;

  __device__ int position(int token) const {
    return positions ? static_cast<int>(positions[token]) : token;
  }
  __device__ int group(int token) const {
    if (keep && !keep[token]) return kNobody;
    return groups ? static_cast<int>(groups[token]) : 0;
  }
};

// What visibility asks of the tokens that are held.
template <int kMost>
struct Marks {
  int position[kMost], group[kMost];

  // For `most` rows, of which those behind the tile are hidden; returns whether this thread met one
  // that is.
  __device__ bool fill(const Tokens& tokens, const Held& held, int most) {
    bool hides = false;
    for (int row = static_cast<int>(threadIdx.x); row < most; row += blockDim.x) {
      const int of = row < held.rows ? tokens.group(held.first + row) : kNobody;
      position[row] = of == kNobody ? 0 : tokens.position(held.first + row);
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
  int whole[2];  // whether all pairs of 32 slots are visible
  __device__ bool all_visible() const { return whole[0] && whole[1]; }
};

// The list of one block, beside the tokens first … last that read it (keys) or are read by it.
template <bool keys>
struct Passing {
  Cut cut;
  Tokens tokens;
  const int64_t* entries;
  unsigned divisor;  // an entry, divided by it, is the number of a block
  Rule rule;
  int first, last;

  // Its first token; -1 where there is none.
  __device__ int start(int entry) const {
    const int64_t number = entries[entry];
    if (number < 0) return -1;
    const int64_t token = int64_t{static_cast<unsigned>(number) / divisor} * cut.block;
    return token < tokens.count ? static_cast<int>(token) : -1;
  }
  __device__ bool meets(int tile) const {
    for (int i = 0; i < cut.packed; ++i) {
      const auto place = cut.place(tile, i * cut.block);
      const int from = place.entry < 0 ? -1 : start(place.entry);
      if (from < 0) continue;
      const int begin = from + place.offset;
      const int end = min(min(from + cut.block, begin + kTile), tokens.count);
      if (begin < end &&
          (keys ? rule.some(first, last, begin, end - 1) : rule.some(begin, end - 1, first, last)))
        return true;
    }
    return false;
  }
  // body(slot, token, place) for every slot, with a token of -1 where there is none.
  template <class F>
  __device__ __forceinline__ void describe(Slots& slots, int tile, const F& body) const {
    for (int slot = static_cast<int>(threadIdx.x); slot < kTile; slot += blockDim.x) {
      const auto place = cut.place(tile, slot);
      const int from = place.entry < 0 ? -1 : start(place.entry);
      int token = from < 0 || from + place.offset >= tokens.count ? -1 : from + place.offset;
      const int group = token < 0 ? kNobody : tokens.group(token);
      if (group == kNobody) token = -1;
      slots.token[slot] = token;
      slots.position[slot] = token < 0 ? 0 : tokens.position(token);
      slots.group[slot] = group;
      const bool visible = token >= 0 && (keys ? rule.every(first, last, token, token)
                                               : rule.every(token, token, first, last));
      const bool whole = __all_sync(0xffffffffu, visible);
      if (slot % 32 == 0) slots.whole[slot / 32] = whole;
      body(slot, token, place);
    }
  }
};

// What queries may meet, or are.
__device__ inline Tokens queries_of(const BlockSoftmax& task, const HeadPlace& place) {
  return {static_cast<int>(task.queries), place.of(task.query_positions),
          place.of(task.query_groups), nullptr};
}
__device__ inline Tokens keys_of(const BlockSoftmax& task, const HeadPlace& place) {
  return {static_cast<int>(task.keys), place.of(task.key_positions), place.of(task.key_groups),
          place.of(task.keep)};
}
// The keys that pass by queries.
__device__ inline Passing<true> keys_of(const BlockSoftmax& task, const Held& queries) {
  return {Cut(static_cast<int>(task.listed), static_cast<int>(task.key_block)),
          keys_of(task, queries.place),
          queries.place.of(task.columns) + queries.block * task.listed,
          1,
          Rule(task),
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
  int tile[kMostThreads], count[kMostWarps];
  Slots slots[3];
};

// The tiles that are met among as many as there are threads, from `start`, in their order.
template <bool keys>
__device__ int found_tiles(Walk& walk, const Passing<keys>& passing, int start, int end) {
  const int tile = start + static_cast<int>(threadIdx.x), warp = threadIdx.x / 32;
  const bool met = tile < end && passing.meets(tile);
  const unsigned all = __ballot_sync(0xffffffffu, met);
  if (threadIdx.x % 32 == 0) walk.count[warp] = __popc(all);
  __syncthreads();
  int place = __popc(all & ((1u << threadIdx.x % 32) - 1)), count = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) {
    if (w < warp) place += walk.count[w];
    count += walk.count[w];
  }
  if (met) walk.tile[place] = tile;
  __syncthreads();
  return count;
}

// For the tiles begin … end - 1 that are met: describe(stage, tile) fills slots[stage], load(stage,
// buffer) begins to copy their rows, use(stage, buffer, tile) has them. There are three stages and
// two buffers. Copies that were begun before have arrived at the first use.
template <bool keys, class Describe, class Load, class Use>
__device__ __forceinline__ void each_tile(Walk& walk, const Passing<keys>& passing, int begin,
                                          int end, const Describe& describe, const Load& load,
                                          const Use& use) {
  for (int start = begin; start < end; start += static_cast<int>(blockDim.x)) {
    const int count = found_tiles(walk, passing, start, end);
    if (count == 0) continue;
    describe(0, walk.tile[0]);
    if (count > 1) describe(1, walk.tile[1]);
    __syncthreads();
    load(0, 0);
    mma::commit_copies();
    for (int n = 0; n < count; ++n) {
      if (n + 1 < count) load((n + 1) % 3, (n + 1) % 2);
      mma::commit_copies();
      if (n + 2 < count) describe((n + 2) % 3, walk.tile[n + 2]);
      mma::await_copies<1>();
      __syncthreads();
      use(n % 3, n % 2, walk.tile[n]);
      __syncthreads();
    }
  }
  mma::await_copies<0>();
  __syncthreads();
}

// What is added to the scores of one head.
template <int kMore>
struct AddedScores {
  const float *pairs, *keys, *distances;
  int low, high;

  __device__ AddedScores(const BlockSoftmax& task, const HeadPlace& place)
      : pairs(kMore == 1 ? place.of(task.bias) : nullptr),
        keys(kMore > 0 ? place.of(task.key_bias) : nullptr),
        distances(kMore == 2 ? place.of(task.bias) : nullptr),
        low(static_cast<int>(task.low)),
        high(static_cast<int>(task.high)) {}
  __device__ bool some() const { return kMore > 0 && (pairs || keys || distances); }
  // Which of the numbers of a query is that of a key so far ahead.
  __device__ int label(int ahead) const { return min(max(ahead, low), high) - low; }
  __device__ int64_t line(int query) const { return int64_t{query} * (high - low + 1); }
  // Of a query and a key, whose weight stands at `place`.
  __device__ float of(int query, int key, int ahead, int64_t place) const {
    float sum = 0;
    if (kMore == 1 && pairs) sum = pairs[place];
    if (kMore == 2) sum = distances[line(query) + label(ahead)];
    if (kMore > 0 && keys) sum += keys[key];
    return sum;
  }
};

// Scores of the rows of a warp, from `own` on, and the slots from `from` on: bias(row, slot, ahead)
// is added, where the key is so far ahead of the query, and what is not seen becomes -infinity.
// Rows are queries and slots keys, or the other way round.
template <bool keys, int kRows, int kTiles, int kMost, class Bias>
__device__ __forceinline__ void hide(mma::C (&score)[kRows][kTiles], const Slots& slots, int from,
                                     const Marks<kMost>& marks, int own, const Rule& rule,
                                     const Bias& bias) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  int row_position[kRows][2], row_group[kRows][2];
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      row_position[m][i] = marks.position[own + m * 16 + i * 8 + g];
      row_group[m][i] = marks.group[own + m * 16 + i * 8 + g];
    }
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int slot = from + n * 8 + 2 * t + j;
      const int slot_position = slots.position[slot], slot_group = slots.group[slot];
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& one = score[m][n].part[2 * i + j];
          const int row = row_position[m][i];
          const bool seen = slot_group == row_group[m][i] &&
                            (keys ? rule.sees(row, slot_position) : rule.sees(slot_position, row));
          const int ahead = keys ? slot_position - row : row - slot_position;
          one = seen ? one + bias(own + m * 16 + i * 8 + g, slot, ahead) : -INFINITY;
        }
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

__device__ inline void nothing_more(int, int, const Cut::Place&) {}

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

// Tiles of 16 queries of a warp: as many as registers have room for, or as a block has.
template <int kWidth, class F>
void with_rows(const BlockSoftmax& task, const F& body) {
  if constexpr (kWidth <= 64)
    if (task.query_block > 16) return body.template operator()<2>();
  body.template operator()<1>();
}

// Calls body with the type, the widths rounded up, and, as a constant, 1 where there is a bias or
// something is dropped, 2 where there is a bias by distance, and else 0.
template <class F>
void with_shape(const BlockSoftmax& task, const F& body) {
  const int64_t width = task.width > task.value_width ? task.width : task.value_width;
  const auto with_both = [&]<class T, int kWidth>() {
    if (task.low <= task.high) return body.template operator()<T, kWidth, 2>();
    if (task.bias.data || task.key_bias.data || task.key)
      return body.template operator()<T, kWidth, 1>();
    body.template operator()<T, kWidth, 0>();
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

// A radix selection over scores that are formed again for each digit. A thread block holds 64
// queries, 16 to a warp. In each of four passes over the keys it counts the next eight bits of
// those scores that agree with what is known of the k-th largest, as numbers whose order is that of
// the scores; from the counts follow its next eight bits. Where more keys equal the k-th largest
// than may stay, a fifth pass looks for the last one that does.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/ordered.h"
#include "longbow/kernels/cuda/pair_tiles.h"
#include "longbow/kernels/top_keys.h"

namespace longbow::kernels {
namespace {

using namespace pairs;

constexpr int kQueries = kWarps * 16, kTiles = kTile / 8;
constexpr int kDigits = 256, kLine = kDigits + 1;  // an odd line spreads rows over the banks

// The scores of 16 queries a warp and all keys that they may see, tile by tile: use(s, key).
template <class T>
struct Scores {
  const PairProduct& task;
  const Place& place;
  const Sight& sight;
  T *queries, *keys;  // the latter two buffers
  int own, end;

  template <class F>
  __device__ __forceinline__ void each(const F& use) const {
    const T* k = place.rows<T>(task.k);
    const auto load = [&](int key, int buffer) {
      if (key < end)
        load_tile(keys + buffer * kBuffer, k, task.k.token, task.width, key, sight.keys);
      mma::commit_copies();
    };
    load(0, 0);
    for (int key = 0, buffer = 0; key < end; key += kTile, buffer ^= 1) {
      mma::await_copies<0>();
      __syncthreads();
      load(key + kTile, buffer ^ 1);
      mma::A q[1][kWidth / 16];
      load_left(q, queries + own * kStride);
      mma::C s[1][kTiles] = {};
      add_products<T>(s, q, keys + buffer * kBuffer);
      if (!sight.all(place.first + own, key, kTile)) hide<true>(s, sight, place.first + own, key);
      use(s, key);
    }
    mma::await_copies<0>();
    __syncthreads();
  }
};

// What is known of one query; the four threads that share it know the same.
struct Search {
  unsigned known = 0;  // the leading bits of the k-th largest
  int left;            // how many keys of those that agree with them stay
  bool all = false;    // fewer keys are seen than may stay
  bool tied = false;   // more keys equal it than may stay

  // From the counts of the next digit.
  __device__ __forceinline__ void next(const unsigned* counts) {
    constexpr int kShare = kDigits / 4;
    const int t = threadIdx.x % 4;
    int mine = 0;
    for (int i = 0; i < kShare; ++i) mine += static_cast<int>(counts[t * kShare + i]);
    int above = 0, seen = mine;  // of higher digits than mine, and of all
#pragma unroll
    for (int other = 1; other < 4; ++other) {
      const int theirs = __shfl_xor_sync(0xffffffffu, mine, other);
      seen += theirs;
      if ((t ^ other) > t) above += theirs;
    }
    int digit = -1, rest = 0, count = 0;
    if (above < left && left <= above + mine) {
      digit = (t + 1) * kShare - 1;
      for (;; --digit) {
        count = static_cast<int>(counts[digit]);
        if (above + count >= left) break;
        above += count;
      }
      rest = left - above;
    }
#pragma unroll
    for (int other = 1; other < 4; other *= 2) {  // one of the four has found it
      digit = max(digit, __shfl_xor_sync(0xffffffffu, digit, other));
      rest = max(rest, __shfl_xor_sync(0xffffffffu, rest, other));
      count = max(count, __shfl_xor_sync(0xffffffffu, count, other));
    }
    all = all || seen < left;
    if (all) return;
    known = known << 8 | static_cast<unsigned>(digit);
    left = rest;
    tied = count > rest;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads, 2) choose(TopKeys all) {
  const auto& task = all.scores;
  const Place place(task, static_cast<int>(task.queries), kQueries);
  const Sight sight(task, place);
  unsigned char* const memory = dynamic_memory();
  T* const queries = reinterpret_cast<T*>(memory);
  T* const keys = queries + kQueries * kStride;                              // two buffers
  unsigned* const counts = reinterpret_cast<unsigned*>(keys + 2 * kBuffer);  // [kQueries, kLine]
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  load_tile(queries, place.rows<T>(task.q), task.q.token, task.width, place.first, sight.queries,
            kQueries);
  const Scores<T> scores = {
      task, place, sight, queries, keys, own, sight.end_of_keys(place.first + kQueries)};
  Search search[2];
  float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = place.first + own + i * 8 + g;
    search[i].left = query < sight.queries ? all.budget[place.batch * task.queries + query] : 1;
  }
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = lane; i < 16 * kLine; i += 32) counts[own * kLine + i] = 0;
    __syncwarp();
    scores.each([&](const mma::C(&s)[1][kTiles], int) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float score = s[0][n].part[i];
          const auto& row = search[i / 2];
          const unsigned number = ordered(score);
          if (score == -INFINITY || (shift < 24 && number >> (shift + 8) != row.known)) continue;
          largest[i / 2] = fmaxf(largest[i / 2], score);
          atomicAdd(counts + (own + i / 2 * 8 + g) * kLine + (number >> shift & (kDigits - 1)), 1u);
        }
    });
#pragma unroll
    for (int i = 0; i < 2; ++i) search[i].next(counts + (own + i * 8 + g) * kLine);
    __syncwarp();
  }
  int last[2] = {sight.keys, sight.keys};  // all that equal it
  bool looks = false;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (!search[i].all && search[i].tied && !all.ties) {
      last[i] = -1;
      looks = true;
    }
  if (__syncthreads_or(looks))
    scores.each([&](const mma::C(&s)[1][kTiles], int key) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned equal[2] = {0, 0};  // bits of the 64 keys
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            if (ordered(s[0][n].part[2 * i + j]) == search[i].known)
              equal[n / 4] |= 1u << (n % 4 * 8 + 2 * t + j);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          equal[half] |= __shfl_xor_sync(0xffffffffu, equal[half], 1);
          equal[half] |= __shfl_xor_sync(0xffffffffu, equal[half], 2);
          if (last[i] >= 0) continue;
          const int count = __popc(equal[half]);
          if (search[i].left > count) {
            search[i].left -= count;
            continue;
          }
          for (; search[i].left > 1; --search[i].left) equal[half] &= equal[half] - 1;
          last[i] = key + half * 32 + __ffs(static_cast<int>(equal[half])) - 1;
        }
      }
    });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 1));
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 2));
    const int query = place.first + own + i * 8 + g;
    if (t > 0 || query >= sight.queries) continue;
    const int64_t at = place.both * task.queries + query;
    all.floor[at] = search[i].all ? -INFINITY : score_of(search[i].known);
    all.last[at] = search[i].all ? sight.keys : last[i];
    all.largest[at] = largest[i];
  }
}

}  // namespace

void top_keys_cuda(const TopKeys& task, void* stream) noexcept {
  const auto run = [&]<class T>() {
    constexpr int kBytes =
        sizeof(T) * (kQueries * kStride + 2 * kBuffer) + sizeof(unsigned) * kQueries * kLine;
    launch(choose<T>, blocks_for(task.scores, task.scores.queries, kQueries), kThreads, kBytes,
           stream, task);
  };
  if (task.scores.type == Element::bfloat16) return run.template operator()<__nv_bfloat16>();
  run.template operator()<__half>();
}

}  // namespace longbow::kernels

#pragma once
// Which queries read which keys, in the kernels of block_softmax.
#ifdef __CUDACC__
#include <climits>
#include <cstdint>
#include <type_traits>

#include "longbow/kernels/block_softmax.h"
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels::blocks {

constexpr int kTile = 64, kMostThreads = 128, kMostWarps = kMostThreads / 32;
constexpr int kNowhere = -(1 << 30);  // the position of a key that is in no window
constexpr int kNobody = INT_MIN;      // the group of a slot without a token
constexpr int kHidden = kNobody + 1;  // that of a token which is held, but not there or hidden
// What a kernel has beside a plain softmax, as a constant: tokens in orders; nothing; a bias or
// something that is dropped; a bias by distance and something that is dropped, or the former alone
// in the type of queries, anywhere and in windows.
constexpr int kOrders = -1, kPlain = 0, kBias = 1, kDistances = 2, kRounded = 3, kWindows = 4;
template <int kMore>
constexpr bool kDrops = kMore == kBias || kMore == kDistances;

// Memory in 32 bits. The group of a query is c_i, and that of a key 1 where it is a slot, whose
// position is then its number.
struct Memory {
  int tokens, segment, rate, slots, first_slot;

  __device__ explicit Memory(const RememberedKeys& given)
      : tokens(static_cast<int>(given.tokens)),
        segment(static_cast<int>(given.segment)),
        rate(static_cast<int>(given.rate)),
        slots(static_cast<int>(given.slots)),
        first_slot(given.first_slot > INT_MAX ? INT_MAX : static_cast<int>(given.first_slot)) {}

  __device__ int left(int i) const {
    const int begin = segment > 0 ? i / segment * segment - tokens : i - tokens + 1;
    return begin < 0 ? 0 : begin / rate;
  }
  __device__ int place(int j, int of_key, int of_query) const {
    return of_key == 1 ? j + of_query * (rate - 1) : j;
  }
  __device__ bool sees(int i, int of_query, int place, int of_key) const {
    const int oldest = of_query * rate;
    const bool near =
        of_key == 1 ? place < oldest && place >= oldest - slots : place <= i && place >= oldest;
    return near && of_key >= 0 && of_query >= 0;
  }
  // Some pair of the queries i … and the keys j …, the last ones included.
  __device__ bool some(int i_first, int i_last, int j_first, int j_last) const {
    const int oldest = left(i_first) * rate, newest = min(j_last, first_slot - 1);
    if (j_first <= min(newest, i_last) && newest >= oldest) return true;
    return j_last >= first_slot && j_last - first_slot >= left(i_first) - slots &&
           max(j_first - first_slot, 0) < left(i_last);
  }
};

// Where there is none.
struct NoMemory {
  static constexpr int tokens = 0, rate = 1, slots = 0, first_slot = INT_MAX;

  __device__ explicit NoMemory(const RememberedKeys&) {}
  __device__ int left(int) const { return 0; }
  __device__ int place(int j, int, int) const { return j; }
  __device__ bool sees(int, int, int, int) const { return false; }
  __device__ bool some(int, int, int, int) const { return false; }
};
template <int kMore>
using MemoryOf = std::conditional_t<kMore == kWindows || kMore == kDistances, Memory, NoMemory>;

// The keys that a query reads: those from `from` to `from` + `span`, by position. The bias of the
// key at position p stands at `base` + p.
struct Window {
  int from = 1 << 29, span = 0, base = 0;  // none

  __device__ bool sees(int position) const {
    return static_cast<unsigned>(position - from) <= static_cast<unsigned>(span);
  }
};

// Visibility in 32 bits.
template <int kMore>
struct Rule {
  int back, ahead, first, apart;
  bool free, by_index, grouped;
  MemoryOf<kMore> memory;
  bool simple;  // a query reads one window of its own group, but for what is near it

  static __device__ int clamped(int64_t x) {
    return x > INT_MAX ? INT_MAX : x < -INT_MAX ? -INT_MAX : static_cast<int>(x);
  }
  __device__ explicit Rule(const BlockSoftmax& task)
      : back(clamped(task.back)),
        ahead(clamped(task.ahead)),
        first(clamped(task.first)),
        apart(clamped(task.apart)),
        free(back == INT_MAX && ahead == INT_MAX && apart <= 0),
        by_index(!task.query_positions.data && !task.key_positions.data && !task.places.at.data),
        grouped(task.query_groups.data),
        memory(task.memory),
        simple(memory.tokens == 0 && first <= 0 && !task.key_positions.data &&
               int64_t{back} + ahead >= 0) {}

  __device__ bool sees(int i, int of_query, int j, int of_key) const {
    if (remembers()) return memory.sees(i, of_query, place(j, of_key, of_query), of_key);
    const int distance = i - j;
    return of_query == of_key && (distance <= back || j < first) && distance >= -ahead &&
           abs(distance) >= apart;
  }
  // Where a key stands for a query of that group.
  __device__ int place(int j, int of_key, int of_query) const {
    return remembers() ? memory.place(j, of_key, of_query) : j;
  }
  __device__ bool remembers() const { return memory.tokens > 0; }
  // Of a query of that group, whose bias of distance 0 stands at `zero`, over keys or slots.
  __device__ Window window(int i, int group, int zero, bool of_slots) const {
    if (group < 0 || (of_slots && memory.slots == 0)) return {};
    if (memory.tokens == 0) return {i - back, back + ahead, zero - i};
    const int oldest = group * memory.rate;
    if (of_slots) return {group - memory.slots, memory.slots - 1, zero - i + oldest - group};
    return {oldest, i - oldest, zero - i};
  }
  // Some pair, or every one, of the queries i … and the keys j …, the last ones included.
  __device__ bool some(int i_first, int i_last, int j_first, int j_last) const {
    if (memory.tokens > 0) return memory.some(i_first, i_last, j_first, j_last);
    return !by_index ||
           ((i_first - j_last <= back || j_first < first) && i_last - j_first >= -ahead);
  }
  __device__ bool every(int i_first, int i_last, int j_first, int j_last) const {
    if (memory.tokens > 0) return false;
    if (grouped || free) return !grouped;
    return by_index && (i_last - j_first <= back || j_last < first) && i_first - j_last >= -ahead &&
           (apart <= 0 || j_first - i_last >= apart || i_first - j_last >= apart);
  }
};

}  // namespace longbow::kernels::blocks
#endif

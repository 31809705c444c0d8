#pragma once
// How kernels that go over the tokens of each head, 64 at a time, share these out.
#include <cstdint>

#include "longbow/kernels/head_rows.h"

namespace longbow::kernels {

// Tokens of a thread block, a multiple of 64: as many as keep a large GPU busy, by four thread
// blocks for each multiprocessor.
inline int64_t head_span(int64_t heads, int64_t tokens, int64_t busy = 528) {
  constexpr int64_t kTile = 64;
  const int64_t tiles = (tokens + kTile - 1) / kTile, wanted = (busy + heads - 1) / heads;
  const int64_t spans = wanted < tiles ? wanted : tiles;
  return spans > 1 ? (tiles + spans - 1) / spans * kTile : tiles * kTile;
}
inline int64_t spans_of(int64_t tokens, int64_t span) {
  return (tokens + span - 1) / span;
}

#ifdef __CUDACC__
// The head and the tokens first … end - 1 of thread block (head, span).
struct HeadSpan {
  int64_t both, batch, head;
  int first, end;

  __device__ HeadSpan(int64_t heads, int64_t tokens, int64_t span)
      : both(blockIdx.x),
        batch(both / heads),
        head(both % heads),
        first(static_cast<int>(blockIdx.y * span)),
        end(static_cast<int>(min(tokens, (blockIdx.y + 1) * span))) {}
  template <class T>
  __device__ const T* rows(const HeadRows& x) const {
    return static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
  }
  template <class T>
  __device__ T* rows(const HeadResults& x) const {
    return static_cast<T*>(x.data) + batch * x.batch + head * x.head;
  }
  // Among the results of all spans and heads.
  __device__ int64_t place(int64_t all_heads) const { return blockIdx.y * all_heads + both; }
};
#endif

}  // namespace longbow::kernels

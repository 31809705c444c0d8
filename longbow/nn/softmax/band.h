#pragma once
// Attention within a band: a query reads keys near it only. Queries are cut into tiles; those of a
// tile share one range of keys, their own and the halo around them, so what is stored is linear in
// N.
#include <functional>

#include "longbow/nn/softmax/softmax.h"

namespace longbow {

// Which keys a query reads, by positions that broadcast: i of queries, j of keys -> bool.
using Reach = std::function<Tensor(const Tensor& i, const Tensor& j)>;
Reach within(int64_t back, int64_t ahead);  // -ahead <= i - j <= back

// Tiles of a sequence of `tokens`, of which the last may be partly empty: K tiles of `tile`
// queries, each beside S = back + tile + ahead keys.
struct Band {
  int64_t tokens;
  int64_t tile, back, ahead;

  // With tiles of a size that suits the halo.
  static Band around(int64_t tokens, int64_t back, int64_t ahead);
  // Queries behind `back` rows that are there already, read by windows() alone.
  static Band behind(int64_t tokens, int64_t back);
  int64_t tiles() const { return (tokens + tile - 1) / tile; }
  Tensor queries(const Tensor& x) const;   // [B, H, N, D] -> [B, H, K, tile, D]
  Tensor keys(const Tensor& x) const;      // [B, H, N, D] -> [B, H, K, S, D]
  Tensor windows(const Tensor& x) const;   // the same of back + N + ahead rows
  Tensor together(const Tensor& x) const;  // [B, H, K, tile, D] -> [B, H, N, D]
  // Where queries [B, 1, K, tile, 1] and keys [B, 1, K, 1, S] stand when the first query of a row
  // stands at `first` [B].
  Tensor query_positions(const Tensor& first) const;
  Tensor key_positions(const Tensor& first) const;
  // [B or 1, 1, K, tile, S] bool: real keys within reach.
  Tensor visible(const Reach& reach, const Tensor& keep, at::Device device) const;
};

// The last `size` keys and values with their positions; slot = position mod size, one more slot for
// padded tokens.
void open_ring(State& state, const Heads& empty, int64_t size);
int64_t ring_size(const State& state);
// What the ring holds, and behind it the new keys and values, at most as many as its size; the ring
// then holds those. No query may reach back further than the ring.
struct Recent {
  Tensor k, v;     // [B, H, size + 1 + T, D]
  Tensor places;   // [B, 1, 1, size + 1 + T] int64: their positions, -1 = empty or padded
  Tensor visible;  // [B, 1, T, size + 1 + T] bool
};
Recent pass_ring(const Heads& heads, State& state, const Reach& reach, const Context& context);
// The same attention for new tokens, which read the ring and each other.
Tensor grow_ring(const Heads& heads, State& state, const Reach& reach, const Weighing& weighing,
                 Context& context);

}  // namespace longbow

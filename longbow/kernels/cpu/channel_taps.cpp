// Tiles of tokens are copied with the neighbours that they read, in whole vectors of channels, so
// that neither the ends of a sequence nor the last channels are a case of their own.
#include "longbow/kernels/channel_taps.h"

#include <algorithm>

#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_room.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kTokens = 64;  // of a tile

// The weights and the bias in whole vectors, [taps + 1, wide].
template <class T>
[[gnu::always_inline]] inline void read_weights(const ChannelTaps<T>& task, T* to) {
  const int64_t wide = padded<T>(task.channels);
  for (int64_t j = 0; j <= task.taps; ++j) {
    const T* const row = j < task.taps ? task.weights + j * task.channels : task.bias;
    if (row) std::copy(row, row + task.channels, to + j * wide);
    std::fill(to + j * wide + (row ? task.channels : 0), to + (j + 1) * wide, T(0));
  }
}

// u of one vector of channels: rows of z from the first that the token reads.
template <class M, class T>
[[gnu::always_inline]] inline void convolve(const T* z, const T* weights, int64_t taps,
                                            int64_t wide, Vector<M, T>& u) {
  Vector<M, T> a, x;
  load(u, weights + taps * wide);
  for (int64_t j = 0; j < taps; ++j) {
    load(a, weights + j * wide);
    load(x, z + j * wide);
    u += a * x;
  }
}
// 1 / (1 + exp(-u)).
template <class M, class T>
[[gnu::always_inline]] inline void sigmoid(Vector<M, T>& u) {
  u = -u;
  exponentiate<M, T>(u);
  u = 1 / (1 + u);
}

template <class T>
struct Forward {
  const ChannelTaps<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    constexpr int64_t kLane = kLanes<M, T>;
    const int64_t wide = padded<T>(task.channels), span = kTokens + task.taps - 1;
    TileRoom<T> room(wide * (task.taps + 2 + span));
    T *const weights = room.take(wide * (task.taps + 1)), *const z = room.take(wide * span),
             *const line = room.take(wide);
    read_weights(task, weights);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, task.tokens - first);
      gather_window(task.z, task.tokens, task.channels, first - task.left, rows + task.taps - 1, z);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t c = 0; c < wide; c += kLane) {
          Vector<M, T> u;
          convolve<M, T>(z + i * wide + c, weights + c, task.taps, wide, u);
          if (task.silu) {
            auto gate = u;
            sigmoid<M, T>(gate);
            u *= gate;
          }
          store(u, line + c);
        }
        std::copy(line, line + task.channels, task.y.data + (first + i) * task.y.row);
      }
    }
  }
};

// With du = dy silu'(u) for the tokens that a tile touches:
//   dz_s = sum_j a_j du_{s - j + left},   da_j = sum_t du_t z_{t + j - left},   db = sum_t du_t.
template <class T>
struct Backward {
  const ChannelTapsBackward<T>& task;
  int64_t begin, end;
  const ChannelTaps<T>& past = task.past;
  const int64_t taps = past.taps, wide = padded<T>(past.channels);

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t reach = kTokens + taps - 1;
    TileRoom<T> room(wide * (2 * taps + 3 + 2 * reach + taps - 1));
    T *const weights = room.take(wide * (taps + 1)), *const sums = room.take(wide * (taps + 1)),
             *const z = room.take(wide * (reach + taps - 1)), *const du = room.take(wide * reach),
             *const line = room.take(wide);
    read_weights(past, weights);
    std::fill(sums, sums + wide * (taps + 1), T(0));
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, past.tokens - first);
      const int64_t before = first - (taps - 1);
      gather_window(past.z, past.tokens, past.channels, before, rows + 2 * (taps - 1), z);
      gather_window(task.dy, past.tokens, past.channels, before + past.left, rows + taps - 1, du);
      if (past.silu)
        for (int64_t m = 0; m < rows + taps - 1; ++m)
          through_silu<M>(z + m * wide, weights, du + m * wide);
      for (int64_t i = 0; i < rows; ++i) {
        neighbours<M>(du + i * wide, weights, line);
        std::copy(line, line + past.channels, task.dz.data + (first + i) * task.dz.row);
      }
      add_up<M>(z + (taps - 1 - past.left) * wide, du + (taps - 1 - past.left) * wide, rows, sums);
    }
    for (int64_t j = 0; j <= taps; ++j)
      for (int64_t c = 0; c < past.channels; ++c)
        task.dweights[j * past.channels + c] += sums[j * wide + c];
  }

 private:
  template <class M>
  [[gnu::always_inline]] void through_silu(const T* z, const T* weights, T* du) const {
    for (int64_t c = 0; c < wide; c += kLanes<M, T>) {
      Vector<M, T> u, d;
      convolve<M, T>(z + c, weights + c, taps, wide, u);
      auto gate = u;
      sigmoid<M, T>(gate);
      load(d, du + c);
      d *= gate * (1 + u * (1 - gate));
      store(d, du + c);
    }
  }
  template <class M>
  [[gnu::always_inline]] void neighbours(const T* du, const T* weights, T* line) const {
    for (int64_t c = 0; c < wide; c += kLanes<M, T>) {
      Vector<M, T> sum = {}, a, d;
      for (int64_t j = 0; j < taps; ++j) {
        load(a, weights + j * wide + c);
        load(d, du + (taps - 1 - j) * wide + c);
        sum += a * d;
      }
      store(sum, line + c);
    }
  }
  template <class M>
  [[gnu::always_inline]] void add_up(const T* z, const T* du, int64_t rows, T* sums) const {
    for (int64_t c = 0; c < wide; c += kLanes<M, T>)
      for (int64_t j = 0; j <= taps; ++j) {
        Vector<M, T> sum, x, d;
        load(sum, sums + j * wide + c);
        for (int64_t i = 0; i < rows; ++i) {
          load(d, du + i * wide + c);
          if (j < taps) {
            load(x, z + (i + j) * wide + c);
            d *= x;
          }
          sum += d;
        }
        store(sum, sums + j * wide + c);
      }
  }
};

}  // namespace

int64_t channel_tiles(int64_t tokens) noexcept {
  return (tokens + kTokens - 1) / kTokens;
}
template <class T>
void channel_taps(const ChannelTaps<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Forward<T>{task, first, last});
}
template <class T>
void channel_taps_backward(const ChannelTapsBackward<T>& task, int64_t first,
                           int64_t last) noexcept {
  run_here(Backward<T>{task, first, last});
}

template void channel_taps(const ChannelTaps<float>& task, int64_t first, int64_t last) noexcept;
template void channel_taps(const ChannelTaps<double>& task, int64_t first, int64_t last) noexcept;
template void channel_taps_backward(const ChannelTapsBackward<float>& task, int64_t first,
                                    int64_t last) noexcept;
template void channel_taps_backward(const ChannelTapsBackward<double>& task, int64_t first,
                                    int64_t last) noexcept;

}  // namespace longbow::kernels

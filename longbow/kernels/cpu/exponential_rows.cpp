#include "longbow/kernels/exponential_rows.h"

#include <algorithm>
#include <limits>

#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kTokens = 64;  // of a tile

template <class T>
struct Exponents {
  const ExponentialRows<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t wide = padded<T>(task.features), deep = padded<T>(task.width);
    TileRoom<T> room(deep * wide + kTokens * (wide + deep));
    T *const omega = room.take(deep * wide), *const u = room.take(kTokens * wide),
             *const y = room.take(kTokens * deep);
    transpose_rows<M, T>(task.omega, task.width, task.features, task.width, T(1), omega, wide);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, task.tokens - first);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < task.width; ++c)
          y[i * deep + c] = task.scale * task.x.data[(first + i) * task.x.row + c];
      tile_product<M, T>({.rows = rows,
                          .columns = task.features,
                          .depth = task.width,
                          .a = y,
                          .a_row = deep,
                          .a_step = 1,
                          .b = omega,
                          .b_row = wide,
                          .out = u,
                          .out_row = wide});
      for (int64_t i = 0; i < rows; ++i) finish(first + i, y + i * deep, u + i * wide);
    }
  }

 private:
  [[gnu::always_inline]] void finish(int64_t token, const T* y, const T* u) const {
    constexpr T kLeast = -std::numeric_limits<T>::infinity();
    constexpr int64_t kParts = 16;  // so that the largest is found by vectors
    T half = 0, most[kParts];
    for (int64_t c = 0; c < task.width; ++c) half += y[c] * y[c];
    half /= 2;
    std::fill(most, most + kParts, kLeast);
    T* const phi = task.phi.data + token * task.phi.row;
    int64_t r = 0;
    for (; r + kParts <= task.features; r += kParts)
      for (int64_t i = 0; i < kParts; ++i) {
        phi[r + i] = u[r + i] - half;
        most[i] = phi[r + i] > most[i] ? phi[r + i] : most[i];
      }
    for (; r < task.features; ++r) most[0] = std::max(most[0], phi[r] = u[r] - half);
    const bool hidden = task.keep && !task.keep[token];
    task.peaks[token] = hidden ? kLeast : *std::max_element(most, most + kParts);
  }
};

template <class T>
struct Raise {
  const ExponentialRows<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    constexpr int64_t kLane = kLanes<M, T>;
    for (int64_t n = begin * kTokens; n < std::min(end * kTokens, task.tokens); ++n) {
      T* const phi = task.phi.data + n * task.phi.row;
      if (task.keep && !task.keep[n]) {
        std::fill(phi, phi + task.features, T(0));
        continue;
      }
      int64_t r = 0;
      for (; r + kLane <= task.features; r += kLane) raise<M>(phi + r, task.peaks[n]);
      if (r == task.features) continue;
      T rest[kLane] = {};
      std::copy(phi + r, phi + task.features, rest);
      raise<M>(rest, task.peaks[n]);
      std::copy(rest, rest + (task.features - r), phi + r);
    }
  }

 private:
  template <class M>
  [[gnu::always_inline]] static void raise(T* phi, T peak) {
    Vector<M, T> x;
    load(x, phi);
    x -= peak;
    exponentiate<M, T>(x);
    store(x, phi);
  }
};

template <class T>
struct Backward {
  const ExponentialRowsBackward<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const auto& past = task.past;
    const int64_t wide = padded<T>(past.width), features = padded<T>(past.features);
    TileRoom<T> room(features * wide + kTokens * (features + wide));
    T *const omega = room.take(features * wide), *const du = room.take(kTokens * features),
             *const dx = room.take(kTokens * wide);
    gather_rows(
        past.omega, past.width, past.features, past.width,
        [](int64_t i) __attribute__((always_inline)) { return i; }, omega, wide);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, past.tokens - first);
      T total[kTokens] = {};
      for (int64_t i = 0; i < rows; ++i) total[i] = slopes(first + i, du + i * features);
      tile_product<M, T>({.rows = rows,
                          .columns = past.width,
                          .depth = past.features,
                          .a = du,
                          .a_row = features,
                          .a_step = 1,
                          .b = omega,
                          .b_row = wide,
                          .out = dx,
                          .out_row = wide});
      for (int64_t i = 0; i < rows; ++i) {
        const T* const x = past.x.data + (first + i) * past.x.row;
        T* const to = task.dx.data + (first + i) * task.dx.row;
        for (int64_t c = 0; c < past.width; ++c)
          to[c] = past.scale * (dx[i * wide + c] - past.scale * x[c] * total[i]);
      }
    }
  }

 private:
  // du of a token, and its sum, in parts so that vectors add it up.
  [[gnu::always_inline]] T slopes(int64_t token, T* du) const {
    constexpr int64_t kParts = 16;
    const T *const phi = task.past.phi.data + token * task.past.phi.row, *const dphi =
                                                                             task.dphi.data +
                                                                             token * task.dphi.row;
    T parts[kParts] = {}, total = 0;
    int64_t r = 0;
    for (; r + kParts <= task.past.features; r += kParts)
      for (int64_t i = 0; i < kParts; ++i) parts[i] += du[r + i] = phi[r + i] * dphi[r + i];
    for (; r < task.past.features; ++r) total += du[r] = phi[r] * dphi[r];
    for (const T part : parts) total += part;
    return total;
  }
};

}  // namespace

int64_t exponential_tiles(int64_t tokens) noexcept {
  return (tokens + kTokens - 1) / kTokens;
}
template <class T>
void find_exponents(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Exponents<T>{task, first, last});
}
template <class T>
void raise_exponents(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Raise<T>{task, first, last});
}
template <class T>
void exponential_rows_backward(const ExponentialRowsBackward<T>& task, int64_t first,
                               int64_t last) noexcept {
  run_here(Backward<T>{task, first, last});
}

template void find_exponents(const ExponentialRows<float>& task, int64_t first,
                             int64_t last) noexcept;
template void find_exponents(const ExponentialRows<double>& task, int64_t first,
                             int64_t last) noexcept;
template void raise_exponents(const ExponentialRows<float>& task, int64_t first,
                              int64_t last) noexcept;
template void raise_exponents(const ExponentialRows<double>& task, int64_t first,
                              int64_t last) noexcept;
template void exponential_rows_backward(const ExponentialRowsBackward<float>& task, int64_t first,
                                        int64_t last) noexcept;
template void exponential_rows_backward(const ExponentialRowsBackward<double>& task, int64_t first,
                                        int64_t last) noexcept;

}  // namespace longbow::kernels

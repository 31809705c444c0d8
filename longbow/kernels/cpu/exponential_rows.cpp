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
int64_t rows_of_omega(const ExponentialRows<T>& task) {
  return task.mirrored ? task.features / 2 : task.features;
}

// to_r = factor u_r - shift, or its exponential; u may be `to`.
template <class M, class T>
[[gnu::always_inline]] inline void shift_row(const T* u, int64_t count, T factor, T shift,
                                             bool raised, T* to) {
  constexpr int64_t kLane = kLanes<M, T>;
  Vector<M, T> x;
  const auto one = [&](const T* from, T* into) __attribute__((always_inline)) {
    load(x, from);
    x = factor * x - shift;
    if (raised) exponentiate<M, T>(x);
    store(x, into);
  };
  int64_t r = 0;
  for (; r + kLane <= count; r += kLane) one(u + r, to + r);
  if (r == count) return;
  T rest[kLane] = {};
  std::copy(u + r, u + count, rest);
  one(rest, rest);
  std::copy(rest, rest + (count - r), to + r);
}

// Exponents, or features relative to the largest of each token.
template <class T>
struct Exponents {
  const ExponentialRows<T>& task;
  int64_t begin, end;
  bool raised;
  const int64_t count = rows_of_omega(task);

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t wide = padded<T>(count), deep = padded<T>(task.width);
    TileRoom<T> room(deep * wide + kTokens * (wide + deep));
    T *const omega = room.take(deep * wide), *const u = room.take(kTokens * wide),
             *const y = room.take(kTokens * deep);
    transpose_rows<M, T>(task.omega, task.width, count, task.width, T(1), omega, wide);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, task.tokens - first);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < task.width; ++c)
          y[i * deep + c] = task.scale * task.x.data[(first + i) * task.x.row + c];
      tile_product<M, T>({.rows = rows,
                          .columns = count,
                          .depth = task.width,
                          .a = y,
                          .a_row = deep,
                          .a_step = 1,
                          .b = omega,
                          .b_row = wide,
                          .out = u,
                          .out_row = wide});
      for (int64_t i = 0; i < rows; ++i) finish<M>(first + i, y + i * deep, u + i * wide);
    }
  }

 private:
  template <class M>
  [[gnu::always_inline]] void finish(int64_t token, const T* y, const T* u) const {
    T* const phi = task.phi.data + token * task.phi.row;
    const bool hidden = task.keep && !task.keep[token];
    if (hidden) {
      task.peaks[token] = -std::numeric_limits<T>::infinity();
      std::fill(phi, phi + task.features, T(0));
      return;
    }
    T half = 0;
    for (int64_t c = 0; c < task.width; ++c) half += y[c] * y[c];
    half /= 2;
    const T most = largest(u), shift = raised ? most : half;
    task.peaks[token] = most - half;
    shift_row<M, T>(u, count, 1, shift, raised, phi);
    if (task.mirrored) shift_row<M, T>(u, count, -1, shift, raised, phi + count);
  }
  // Of u, mirrored of u and -u; in parts, so that vectors find it.
  [[gnu::always_inline]] T largest(const T* u) const {
    constexpr int64_t kParts = 16;
    T most[kParts];
    std::fill(most, most + kParts, -std::numeric_limits<T>::infinity());
    const auto size = [&](T x) __attribute__((always_inline)) {
      return task.mirrored && x < 0 ? -x : x;
    };
    int64_t r = 0;
    for (; r + kParts <= count; r += kParts)
      for (int64_t i = 0; i < kParts; ++i) {
        const T x = size(u[r + i]);
        most[i] = x > most[i] ? x : most[i];
      }
    for (; r < count; ++r) most[0] = std::max(most[0], size(u[r]));
    return *std::max_element(most, most + kParts);
  }
};

template <class T>
struct Raise {
  const ExponentialRows<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    for (int64_t n = begin * kTokens; n < std::min(end * kTokens, task.tokens); ++n) {
      T* const phi = task.phi.data + n * task.phi.row;
      if (!task.keep || task.keep[n])
        shift_row<M, T>(phi, task.features, 1, task.peaks[n], true, phi);
    }
  }
};

template <class T>
struct Backward {
  const ExponentialRowsBackward<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const auto& past = task.past;
    const int64_t wide = padded<T>(past.width), count = rows_of_omega(past),
                  features = padded<T>(count);
    TileRoom<T> room(features * wide + kTokens * (features + wide));
    T *const omega = room.take(features * wide), *const du = room.take(kTokens * features),
             *const dx = room.take(kTokens * wide);
    gather_rows(
        past.omega, past.width, count, past.width,
        [](int64_t i) __attribute__((always_inline)) { return i; }, omega, wide);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, rows = std::min(kTokens, past.tokens - first);
      T total[kTokens] = {};
      for (int64_t i = 0; i < rows; ++i) total[i] = slopes(first + i, du + i * features);
      tile_product<M, T>({.rows = rows,
                          .columns = past.width,
                          .depth = count,
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
  // du of a token, of rows of omega, and the sum over features; in parts, so that vectors add it
  // up.
  [[gnu::always_inline]] T slopes(int64_t token, T* du) const {
    constexpr int64_t kParts = 16;
    const T *const phi = task.past.phi.data + token * task.past.phi.row, *const dphi =
                                                                             task.dphi.data +
                                                                             token * task.dphi.row;
    const int64_t count = rows_of_omega(task.past);
    T parts[kParts] = {}, total = 0;
    const auto one = [&](int64_t r, T & sum) __attribute__((always_inline)) {
      const T plus = phi[r] * dphi[r],
              minus = task.past.mirrored ? phi[count + r] * dphi[count + r] : T(0);
      du[r] = plus - minus;
      sum += plus + minus;
    };
    int64_t r = 0;
    for (; r + kParts <= count; r += kParts)
      for (int64_t i = 0; i < kParts; ++i) one(r + i, parts[i]);
    for (; r < count; ++r) one(r, total);
    for (const T part : parts) total += part;
    return total;
  }
};

}  // namespace

int64_t exponential_tiles(int64_t tokens) noexcept {
  return (tokens + kTokens - 1) / kTokens;
}
template <class T>
void exponential_rows(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Exponents<T>{task, first, last, true});
}
template <class T>
void find_exponents(const ExponentialRows<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Exponents<T>{task, first, last, false});
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

template void exponential_rows(const ExponentialRows<float>& task, int64_t first,
                               int64_t last) noexcept;
template void exponential_rows(const ExponentialRows<double>& task, int64_t first,
                               int64_t last) noexcept;
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

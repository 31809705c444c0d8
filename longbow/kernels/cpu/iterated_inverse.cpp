// With P = A Z, a step is Z' = Z Y with X = 15 I - P (7 I - P) and Y = (13 I - P X) / 4. Backward,
// from dZ':
//   dY = Z^T dZ',  dX = -P^T dY / 4,  dP = -dY X^T / 4 - 7 dX + dX P^T + P^T dX,
//   dZ = dZ' Y^T + A^T dP,  dA += dP Z^T.
#include "longbow/kernels/iterated_inverse.h"

#include <algorithm>
#include <utility>

#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

// Matrices whose rows are filled up to whole vectors, as right factors and results are.
template <class M, class T>
struct Matrices {
  const int64_t order, wide = padded<T>(order);
  TileRoom<T> room;

  [[gnu::always_inline]] Matrices(int64_t rows, int64_t count)
      : order(rows), room(count * wide * wide) {}

  [[gnu::always_inline]] T* next() { return room.take(wide * wide); }
  [[gnu::always_inline]] void read(const T* from, T* to) const {
    for (int64_t i = 0; i < order; ++i) {
      std::copy(from + i * order, from + (i + 1) * order, to + i * wide);
      std::fill(to + i * wide + order, to + (i + 1) * wide, T(0));
    }
  }
  [[gnu::always_inline]] void write(const T* from, T* to) const {
    for (int64_t i = 0; i < order; ++i)
      std::copy(from + i * wide, from + i * wide + order, to + i * order);
  }
  // out = a b or a^T b, or added to it.
  enum class Side { plain, transposed };
  [[gnu::always_inline]] void multiply(const T* a, const T* b, T* out, Side side = Side::plain,
                                       bool add = false) const {
    const bool plain = side == Side::plain;
    tile_product<M, T>({.rows = order,
                        .columns = order,
                        .depth = order,
                        .a = a,
                        .a_row = plain ? wide : 1,
                        .a_step = plain ? 1 : wide,
                        .b = b,
                        .b_row = wide,
                        .out = out,
                        .out_row = wide,
                        .add = add});
  }
  [[gnu::always_inline]] void transpose(const T* from, T* to) const {
    transpose_rows<M, T>(from, wide, order, order, T(1), to, wide);
  }
  // to = factor x + diagonal I.
  [[gnu::always_inline]] void combine(const T* x, T factor, T diagonal, T* to) const {
    for (int64_t i = 0; i < order * wide; ++i) to[i] = factor * x[i];
    for (int64_t i = 0; i < order; ++i) to[i * wide + i] += diagonal;
  }
  // P, X and Y from A and Z.
  [[gnu::always_inline]] void step(const T* a, const T* z, T* p, T* x, T* y) const {
    multiply(a, z, p);
    combine(p, -1, 7, y);
    multiply(p, y, x);
    combine(x, -1, 15, x);
    multiply(p, x, y);
    combine(y, T(-0.25), T(3.25), y);
  }
};

template <class T>
struct Forward {
  const IteratedInverse<T>& task;

  template <class M>
  [[gnu::always_inline]] void on() const {
    Matrices<M, T> all(task.order, 6);
    T *const a = all.next(), *const p = all.next(), *const x = all.next(), *const y = all.next(),
             *z = all.next(), *next = all.next();
    all.read(task.a, a);
    all.read(task.states, z);
    for (int64_t s = 0; s < task.steps; ++s) {
      if (s > 0) all.write(z, task.states + s * task.stride);
      all.step(a, z, p, x, y);
      all.multiply(z, y, next);
      std::swap(z, next);
    }
    all.write(z, task.out);
  }
};

template <class T>
struct Backward {
  const IteratedInverseBackward<T>& task;

  template <class M>
  [[gnu::always_inline]] void on() const {
    using Side = typename Matrices<M, T>::Side;
    const auto& past = task.past;
    Matrices<M, T> all(past.order, 12);
    T *const a = all.next(), *const p = all.next(), *const x = all.next(), *const y = all.next(),
             *const z = all.next(), *const dy = all.next(), *const dx = all.next(),
             *const dp = all.next(), *const turned = all.next(), *const da = all.next(),
             *dz = all.next(), *next = all.next();
    all.read(past.a, a);
    all.read(task.dout, dz);
    for (int64_t s = past.steps - 1; s >= 0; --s) {
      all.read(past.states + s * past.stride, z);
      all.step(a, z, p, x, y);
      all.multiply(z, dz, dy, Side::transposed);
      all.combine(dy, T(-0.25), 0, dy);
      all.multiply(p, dy, dx, Side::transposed);
      all.transpose(x, turned);
      all.multiply(dy, turned, dp);
      all.transpose(p, turned);
      all.multiply(dx, turned, dp, Side::plain, true);
      all.multiply(p, dx, dp, Side::transposed, true);
      for (int64_t i = 0; i < all.order * all.wide; ++i) dp[i] -= 7 * dx[i];
      all.transpose(y, turned);
      all.multiply(dz, turned, next);
      all.multiply(a, dp, next, Side::transposed, true);
      all.transpose(z, turned);
      all.multiply(dp, turned, da, Side::plain, s + 1 < past.steps);
      std::swap(dz, next);
    }
    all.write(da, task.da);
    all.write(dz, task.dz);
  }
};

}  // namespace

template <class T>
void iterated_inverse(const IteratedInverse<T>& task) noexcept {
  run_here(Forward<T>{task});
}
template <class T>
void iterated_inverse_backward(const IteratedInverseBackward<T>& task) noexcept {
  run_here(Backward<T>{task});
}

template void iterated_inverse(const IteratedInverse<float>& task) noexcept;
template void iterated_inverse(const IteratedInverse<double>& task) noexcept;
template void iterated_inverse_backward(const IteratedInverseBackward<float>& task) noexcept;
template void iterated_inverse_backward(const IteratedInverseBackward<double>& task) noexcept;

}  // namespace longbow::kernels

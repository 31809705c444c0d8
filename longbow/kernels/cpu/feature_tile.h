#pragma once
// The features of a tile of tokens. Tokens are columns: features lie as [R, 64], so that what is
// common to all features of a token is a vector of tokens.
#include <algorithm>

#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"
#include "longbow/kernels/feature_attention.h"

namespace longbow::kernels {

constexpr int64_t kTileTokens = 64;

// The features of a tile of tokens, and what their gradient needs.
template <class M, class T>
struct FeatureTile {
  using V = Vector<M, T>;
  const HeadFeatures<T>& of;
  const int64_t features, wide;  // R; E in whole vectors
  int64_t first = 0, rows = 0;
  T *x, *phi;           // [E, 64], [R, 64]
  T *slopes, *dx;       // dphi [R, 64], [64, E]
  T half[kTileTokens];  // |y|^2 / 2

  [[gnu::always_inline]] FeatureTile(const HeadFeatures<T>& given, int64_t count, TileRoom<T>& room)
      : of(given),
        features(count),
        wide(padded<T>(given.width)),
        x(room.take(wide * kTileTokens)),
        phi(room.take(count * kTileTokens)),
        slopes(room.take(count * kTileTokens)),
        dx(room.take(wide * kTileTokens)) {}
  static int64_t room(const HeadFeatures<T>& given, int64_t count) {
    return 2 * kTileTokens * (padded<T>(given.width) + count);
  }

  [[gnu::always_inline]] void read(int64_t number) {
    first = number * kTileTokens;
    rows = std::min(kTileTokens, of.tokens - first);
    transpose_rows<M, T>(of.x.data + first * of.x.row, of.x.row, rows, of.width,
                         of.omega ? of.scale : T(1), x, kTileTokens);
    if (of.omega)
      exponents();
    else
      map();
  }

  [[gnu::always_inline]] bool hides(int64_t token) const { return of.keep && !of.keep[token]; }
  // x_ri = 0 for tokens that are not kept, and behind the last.
  [[gnu::always_inline]] void hide(T* values, int64_t count, T with) const {
    if (!of.keep && rows == kTileTokens) return;
    for (int64_t i = 0; i < kTileTokens; ++i)
      if (i >= rows || hides(first + i))
        for (int64_t r = 0; r < count; ++r) values[r * kTileTokens + i] = with;
  }

  // u_r - |y|^2 / 2, in phi.
  [[gnu::always_inline]] void exponents() {
    tile_product<M, T>({.rows = features,
                        .columns = kTileTokens,
                        .depth = of.width,
                        .a = of.omega,
                        .a_row = of.width,
                        .a_step = 1,
                        .b = x,
                        .b_row = kTileTokens,
                        .out = phi,
                        .out_row = kTileTokens});
    for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
      V sum = {}, y;
      for (int64_t c = 0; c < of.width; ++c) {
        load(y, x + c * kTileTokens + i);
        sum += y * y;
      }
      sum /= 2;
      store(sum, half + i);
    }
  }
  // The largest exponent of each token.
  [[gnu::always_inline]] void peaks(T* most) const {
    for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
      V top, u;
      load(top, phi + i);
      for (int64_t r = 1; r < features; ++r) {
        load(u, phi + r * kTileTokens + i);
        top = u > top ? u : top;
      }
      V shift;
      load(shift, half + i);
      top -= shift;
      store(top, most + i);
    }
  }
  // phi = exp(u - |y|^2 / 2 - peak).
  [[gnu::always_inline]] void raise(const T* peak) {
    for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
      V shift, top, u;
      load(shift, half + i);
      load(top, peak + i);
      shift += top;
      for (int64_t r = 0; r < features; ++r) {
        load(u, phi + r * kTileTokens + i);
        u -= shift;
        exponentiate<M, T>(u);
        store(u, phi + r * kTileTokens + i);
      }
    }
  }

  // phi of the channels themselves.
  [[gnu::always_inline]] void map() {
    for (int64_t i = 0; i < of.width * kTileTokens; i += kLanes<M, T>) {
      V y;
      load(y, x + i);
      map_one(y);
      store(y, phi + i);
    }
    if (of.turns) turn();
  }
  [[gnu::always_inline]] void map_one(V& y) const {
    constexpr T kLargest = 35;
    V power = {};
    switch (of.map) {
      case FeatureMap::relu:
        y = y <= 0 ? V{} : y;
        return;
      case FeatureMap::elu:
        power = y > 0 ? V{} : y;
        exponentiate<M, T>(power);
        y = y > 0 ? y + 1 : power;
        return;
      case FeatureMap::square:
        y *= y;
        return;
      case FeatureMap::exp:
        y = y > kLargest ? V{} + kLargest : y;
        exponentiate<M, T>(y);
        return;
      case FeatureMap::identity:
        return;
    }
  }
  // One of the two factors of each token, 0 behind the last.
  [[gnu::always_inline]] void factors(int64_t which, T* found) const {
    for (int64_t i = 0; i < kTileTokens; ++i)
      found[i] = i < rows ? of.turns[2 * (first + i) + which] : T(0);
  }
  [[gnu::always_inline]] void turn() {
    T cosine[kTileTokens], sine[kTileTokens];
    factors(0, cosine);
    factors(1, sine);
    const int64_t half_of = of.width * kTileTokens;
    for (int64_t c = 0; c < half_of; c += kTileTokens)
      for (int64_t i = 0; i < kTileTokens; ++i) {
        phi[half_of + c + i] = phi[c + i] * sine[i];
        phi[c + i] *= cosine[i];
      }
  }

  // From dphi, in slopes, to dx [64, E].
  [[gnu::always_inline]] void back() {
    if (of.omega)
      back_through_omega();
    else
      back_through_map();
  }
  // du = phi dphi;  dx = scale (du^T omega - y sum_r du).
  [[gnu::always_inline]] void back_through_omega() {
    T total[kTileTokens];
    for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
      V sum = {}, d, p;
      for (int64_t r = 0; r < features; ++r) {
        load(d, slopes + r * kTileTokens + i);
        load(p, phi + r * kTileTokens + i);
        d *= p;
        sum += d;
        store(d, slopes + r * kTileTokens + i);
      }
      store(sum, total + i);
    }
    for (int64_t c = 0; c < of.width; ++c)  // x is not needed any more: dx^T = omega^T du - y total
      for (int64_t i = 0; i < kTileTokens; ++i) x[c * kTileTokens + i] *= -total[i];
    tile_product<M, T>({.rows = of.width,
                        .columns = kTileTokens,
                        .depth = features,
                        .a = of.omega,
                        .a_row = 1,
                        .a_step = of.width,
                        .b = slopes,
                        .b_row = kTileTokens,
                        .out = x,
                        .out_row = kTileTokens,
                        .add = true});
    transpose_rows<M, T>(x, kTileTokens, of.width, kTileTokens, of.scale, dx, wide);
  }
  [[gnu::always_inline]] void back_through_map() {
    if (of.turns) {
      T cosine[kTileTokens], sine[kTileTokens];
      factors(0, cosine);
      factors(1, sine);
      const int64_t half_of = of.width * kTileTokens;
      for (int64_t c = 0; c < half_of; c += kTileTokens)
        for (int64_t i = 0; i < kTileTokens; ++i)
          slopes[c + i] = slopes[c + i] * cosine[i] + slopes[half_of + c + i] * sine[i];
    }
    for (int64_t i = 0; i < of.width * kTileTokens; i += kLanes<M, T>) {
      V y, d;
      load(y, x + i);
      load(d, slopes + i);
      slope_of(y);
      d *= y;
      store(d, slopes + i);
    }
    transpose_rows<M, T>(slopes, kTileTokens, of.width, kTileTokens, T(1), dx, wide);
  }
  [[gnu::always_inline]] void slope_of(V& y) const {
    constexpr T kLargest = 35;
    const V one = V{} + 1, given = y;
    switch (of.map) {
      case FeatureMap::relu:
        y = y > 0 ? one : V{};
        return;
      case FeatureMap::elu:
        y = y > 0 ? V{} : y;
        exponentiate<M, T>(y);
        return;
      case FeatureMap::square:
        y *= 2;
        return;
      case FeatureMap::exp:
        exponentiate<M, T>(y);
        y = given > kLargest ? V{} : y;
        return;
      case FeatureMap::identity:
        y = one;
        return;
    }
  }
  [[gnu::always_inline]] void write(const Rows<T>& to) const {
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = to.data + (first + i) * to.row;
      const bool hidden = hides(first + i);
      for (int64_t c = 0; c < of.width; ++c) row[c] = hidden ? T(0) : dx[i * wide + c];
    }
  }
};

}  // namespace longbow::kernels

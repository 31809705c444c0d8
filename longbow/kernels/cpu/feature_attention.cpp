// Tokens are columns: features lie as [R, 64], so that what is common to all features of a token is
// a vector of tokens, and a transposed factor of a product costs nothing.
//   S += phi(k) v,  z += sum_j phi(k_j);   o = phi(q)^T S / d,  w = phi(q) . z.
// Backward, with t = S g^T, y = g / d and c = -(phi(q) . t) / d^2 (the gradient of w):
//   dphi(q) = t / d + z c,  dS += phi(q) y,  dz += phi(q) c;   dphi(k) = dS v^T + dz,  dv =
//   phi(k)^T dS.
#include "longbow/kernels/feature_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kTokens = 64;  // of a tile

// Where the parts of the sums stand.
template <class T>
struct Sums {
  T *values, *weights, *peak;  // [R, D] in whole vectors, [R], [1]
  Sums(T* all, int64_t features, int64_t value_width)
      : values(all),
        weights(all + features * padded<T>(value_width)),
        peak(weights + padded<T>(features)) {}
};

// The features of a tile of tokens, and what their gradient needs.
template <class M, class T>
struct Tile {
  using V = Vector<M, T>;
  const HeadFeatures<T>& of;
  const int64_t features, wide;  // R; E in whole vectors
  int64_t first = 0, rows = 0;
  T *x, *phi;       // [E, 64], [R, 64]
  T *slopes, *dx;   // dphi [R, 64], [64, E]
  T half[kTokens];  // |y|^2 / 2

  [[gnu::always_inline]] Tile(const HeadFeatures<T>& given, int64_t count, TileRoom<T>& room)
      : of(given),
        features(count),
        wide(padded<T>(given.width)),
        x(room.take(wide * kTokens)),
        phi(room.take(count * kTokens)),
        slopes(room.take(count * kTokens)),
        dx(room.take(wide * kTokens)) {}
  static int64_t room(const HeadFeatures<T>& given, int64_t count) {
    return 2 * kTokens * (padded<T>(given.width) + count);
  }

  [[gnu::always_inline]] void read(int64_t number) {
    first = number * kTokens;
    rows = std::min(kTokens, of.tokens - first);
    transpose_rows<M, T>(of.x.data + first * of.x.row, of.x.row, rows, of.width,
                         of.omega ? of.scale : T(1), x, kTokens);
    if (of.omega)
      exponents();
    else
      map();
  }

  [[gnu::always_inline]] bool hides(int64_t token) const { return of.keep && !of.keep[token]; }
  // x_ri = 0 for tokens that are not kept, and behind the last.
  [[gnu::always_inline]] void hide(T* values, int64_t count, T with) const {
    if (!of.keep && rows == kTokens) return;
    for (int64_t i = 0; i < kTokens; ++i)
      if (i >= rows || hides(first + i))
        for (int64_t r = 0; r < count; ++r) values[r * kTokens + i] = with;
  }

  // u_r - |y|^2 / 2, in phi.
  [[gnu::always_inline]] void exponents() {
    tile_product<M, T>({.rows = features,
                        .columns = kTokens,
                        .depth = of.width,
                        .a = of.omega,
                        .a_row = of.width,
                        .a_step = 1,
                        .b = x,
                        .b_row = kTokens,
                        .out = phi,
                        .out_row = kTokens});
    for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
      V sum = {}, y;
      for (int64_t c = 0; c < of.width; ++c) {
        load(y, x + c * kTokens + i);
        sum += y * y;
      }
      sum /= 2;
      store(sum, half + i);
    }
  }
  // The largest exponent of each token.
  [[gnu::always_inline]] void peaks(T* most) const {
    for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
      V top, u;
      load(top, phi + i);
      for (int64_t r = 1; r < features; ++r) {
        load(u, phi + r * kTokens + i);
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
    for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
      V shift, top, u;
      load(shift, half + i);
      load(top, peak + i);
      shift += top;
      for (int64_t r = 0; r < features; ++r) {
        load(u, phi + r * kTokens + i);
        u -= shift;
        exponentiate<M, T>(u);
        store(u, phi + r * kTokens + i);
      }
    }
  }

  // phi of the channels themselves.
  [[gnu::always_inline]] void map() {
    for (int64_t i = 0; i < of.width * kTokens; i += kLanes<M, T>) {
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
        y = y > 0 ? y : V{};
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
  // The factor of token i, or of all, 0 behind the last.
  [[gnu::always_inline]] void factors(int64_t which, T* found) const {
    for (int64_t i = 0; i < kTokens; ++i)
      found[i] = i < rows ? of.turns[2 * (first + i) + which] : T(0);
  }
  [[gnu::always_inline]] void turn() {
    T cosine[kTokens], sine[kTokens];
    factors(0, cosine);
    factors(1, sine);
    const int64_t half_of = of.width * kTokens;
    for (int64_t c = 0; c < half_of; c += kTokens)
      for (int64_t i = 0; i < kTokens; ++i) {
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
    T total[kTokens];
    for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
      V sum = {}, d, p;
      for (int64_t r = 0; r < features; ++r) {
        load(d, slopes + r * kTokens + i);
        load(p, phi + r * kTokens + i);
        d *= p;
        sum += d;
        store(d, slopes + r * kTokens + i);
      }
      store(sum, total + i);
    }
    for (int64_t c = 0; c < of.width; ++c)  // x is not needed any more: dx^T = omega^T du - y total
      for (int64_t i = 0; i < kTokens; ++i) x[c * kTokens + i] *= -total[i];
    tile_product<M, T>({.rows = of.width,
                        .columns = kTokens,
                        .depth = features,
                        .a = of.omega,
                        .a_row = 1,
                        .a_step = of.width,
                        .b = slopes,
                        .b_row = kTokens,
                        .out = x,
                        .out_row = kTokens,
                        .add = true});
    transpose_rows<M, T>(x, kTokens, of.width, kTokens, of.scale, dx, wide);
  }
  [[gnu::always_inline]] void back_through_map() {
    if (of.turns) {
      T cosine[kTokens], sine[kTokens];
      factors(0, cosine);
      factors(1, sine);
      const int64_t half_of = of.width * kTokens;
      for (int64_t c = 0; c < half_of; c += kTokens)
        for (int64_t i = 0; i < kTokens; ++i)
          slopes[c + i] = slopes[c + i] * cosine[i] + slopes[half_of + c + i] * sine[i];
    }
    for (int64_t i = 0; i < of.width * kTokens; i += kLanes<M, T>) {
      V y, d;
      load(y, x + i);
      load(d, slopes + i);
      slope_of(y);
      d *= y;
      store(d, slopes + i);
    }
    transpose_rows<M, T>(slopes, kTokens, of.width, kTokens, T(1), dx, wide);
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

// [rows, D] of a tile as they are, filled up to whole vectors.
template <class T>
[[gnu::always_inline]] inline void copy_rows(const Rows<const T>& from, int64_t first, int64_t rows,
                                             int64_t width, T* to) {
  gather_rows(
      from.data + first * from.row, from.row, rows, width,
      [](int64_t i) __attribute__((always_inline)) { return i; }, to, padded<T>(width));
}

// sum_r a_ri b_r, or, as a scaled copy, b_r c_i + a_ri d_i.
template <class M, class T>
[[gnu::always_inline]] inline void dot_features(const T* a, const T* b, int64_t features, T* out) {
  for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
    Vector<M, T> sum = {}, x;
    for (int64_t r = 0; r < features; ++r) {
      load(x, a + r * kTokens + i);
      sum += x * b[r];
    }
    store(sum, out + i);
  }
}

// sum_i a_ri c_i is added to out_r; c may be null: all 1.
template <class M, class T>
[[gnu::always_inline]] inline void add_tokens(const T* a, const T* c, int64_t features, T* out) {
  for (int64_t r = 0; r < features; ++r) {
    Vector<M, T> sum = {}, x, y;
    for (int64_t i = 0; i < kTokens; i += kLanes<M, T>) {
      load(x, a + r * kTokens + i);
      if (c) {
        load(y, c + i);
        x *= y;
      }
      sum += x;
    }
    T lanes[kLanes<M, T>], total = 0;
    store(sum, lanes);
    for (const T lane : lanes) total += lane;
    out[r] += total;
  }
}

// out [R, D] += phi y for y [64, D].
template <class M, class T>
[[gnu::always_inline]] inline void add_outer(const Tile<M, T>& tile, const T* y, int64_t width,
                                             T* out) {
  tile_product<M, T>({.rows = tile.features,
                      .columns = width,
                      .depth = tile.rows,
                      .a = tile.phi,
                      .a_row = kTokens,
                      .a_step = 1,
                      .b = y,
                      .b_row = padded<T>(width),
                      .out = out,
                      .out_row = padded<T>(width),
                      .add = true});
}
// out [64, D] = phi^T S.
template <class M, class T>
[[gnu::always_inline]] inline void read_features(const Tile<M, T>& tile, const T* sums,
                                                 int64_t width, T* out) {
  tile_product<M, T>({.rows = tile.rows,
                      .columns = width,
                      .depth = tile.features,
                      .a = tile.phi,
                      .a_row = 1,
                      .a_step = kTokens,
                      .b = sums,
                      .b_row = padded<T>(width),
                      .out = out,
                      .out_row = padded<T>(width)});
}
// slopes [R, 64] = S y for y [D, 64].
template <class M, class T>
[[gnu::always_inline]] inline void feature_slopes(const Tile<M, T>& tile, const T* sums, const T* y,
                                                  int64_t width) {
  tile_product<M, T>({.rows = tile.features,
                      .columns = kTokens,
                      .depth = width,
                      .a = sums,
                      .a_row = padded<T>(width),
                      .a_step = 1,
                      .b = y,
                      .b_row = kTokens,
                      .out = tile.slopes,
                      .out_row = kTokens});
}

template <class T>
struct Step {
  const FeatureAttention<T>& task;
  int64_t first, last;
  const int64_t features = task.features, width = task.value_width, wide = padded<T>(width);

  Sums<T> sums() const { return {task.sums, features, width}; }
  Sums<T> dsums() const { return {task.dsums, features, width}; }
  int64_t room(const HeadFeatures<T>& of) const {
    return Tile<Portable, T>::room(of, features) + 3 * kTokens * wide;
  }
  // The features of queries, relative to their own peaks.
  template <class M>
  [[gnu::always_inline]] void read_queries(Tile<M, T>& tile, int64_t number) const {
    tile.read(number);
    if (!task.queries.omega) return;
    T peak[kTokens];
    tile.peaks(peak);
    tile.raise(peak);
  }
};

template <class T>
struct SumKeys : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.keys));
    Tile<M, T> tile(task.keys, features, room);
    T* const values = room.take(kTokens * wide);
    const auto sums = this->sums();
    for (int64_t number = this->first; number < this->last; ++number) {
      tile.read(number);
      if (task.keys.omega) raise(tile, sums);
      tile.hide(tile.phi, features, T(0));
      copy_rows(task.v, tile.first, tile.rows, width, values);
      add_outer(tile, values, width, sums.values);
      add_tokens<M, T>(tile.phi, nullptr, features, sums.weights);
    }
  }

 private:
  // Features relative to the largest exponent so far; when it grows, the sums shrink.
  template <class M>
  [[gnu::always_inline]] void raise(Tile<M, T>& tile, const Sums<T>& sums) const {
    T peak[kTokens];
    tile.peaks(peak);
    tile.hide(peak, 1, -std::numeric_limits<T>::infinity());
    const T most = std::max(*sums.peak, *std::max_element(peak, peak + kTokens));
    if (most > *sums.peak) {
      const T shrunk = std::exp(*sums.peak - most);
      for (int64_t i = 0; i < features * wide; ++i) sums.values[i] *= shrunk;
      for (int64_t r = 0; r < features; ++r) sums.weights[r] *= shrunk;
      *sums.peak = most;
    }
    std::fill(peak, peak + kTokens, *sums.peak);
    tile.raise(peak);
  }
};

template <class T>
struct ReadSums : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.queries));
    Tile<M, T> tile(task.queries, features, room);
    T* const out = room.take(kTokens * wide);
    const auto sums = this->sums();
    for (int64_t number = this->first; number < this->last; ++number) {
      this->read_queries(tile, number);
      T weights[kTokens];
      dot_features<M, T>(tile.phi, sums.weights, features, weights);
      read_features(tile, sums.values, width, out);
      for (int64_t i = 0; i < tile.rows; ++i) {
        const T all = weights[i] + task.added, factor = 1 / std::max(all, task.least);
        T* const row = task.out.data + (tile.first + i) * task.out.row;
        for (int64_t c = 0; c < width; ++c)
          row[c] = task.normalised ? factor * out[i * wide + c] : out[i * wide + c];
        task.inverse[tile.first + i] = !task.normalised    ? weights[i]
                                       : all >= task.least ? factor
                                                           : -factor;
      }
    }
  }
};

template <class T>
struct QueryGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.queries));
    Tile<M, T> tile(task.queries, features, room);
    T *const slopes = room.take(kTokens * wide), *const columns = room.take(kTokens * wide);
    const auto sums = this->sums(), dsums = this->dsums();
    for (int64_t number = this->first; number < this->last; ++number) {
      this->read_queries(tile, number);
      T factor[kTokens], weight_slope[kTokens];
      copy_rows(task.dout, tile.first, tile.rows, width, slopes);
      transpose_rows<M, T>(slopes, wide, tile.rows, width, T(1), columns, kTokens);
      feature_slopes(tile, sums.values, columns, width);  // t
      of_weights(tile, factor, weight_slope);
      for (int64_t i = 0; i < tile.rows; ++i)
        for (int64_t c = 0; c < wide; ++c) slopes[i * wide + c] *= factor[i];
      add_outer(tile, slopes, width, dsums.values);
      add_tokens<M, T>(tile.phi, weight_slope, features, dsums.weights);
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTokens; ++i) {
          T& slope = tile.slopes[r * kTokens + i];
          slope = slope * factor[i] + sums.weights[r] * weight_slope[i];
        }
      tile.back();
      tile.write(task.dq);
    }
  }

 private:
  // 1 / d, and the gradient of w; zeros behind the last token.
  template <class M>
  [[gnu::always_inline]] void of_weights(const Tile<M, T>& tile, T* factor, T* slope) const {
    T read[kTokens];
    std::fill(read, read + kTokens, T(0));
    if (task.normalised)
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTokens; ++i)
          read[i] += tile.phi[r * kTokens + i] * tile.slopes[r * kTokens + i];
    for (int64_t i = 0; i < kTokens; ++i) {
      const bool there = i < tile.rows;
      const T inverse = there && task.normalised ? task.inverse[tile.first + i] : T(1);
      factor[i] = there ? std::abs(inverse) : T(0);
      slope[i] = there && inverse > 0 ? -read[i] * inverse * inverse : T(0);
      if (!task.normalised) slope[i] = there ? task.dweights[tile.first + i] : T(0);
    }
  }
};

template <class T>
struct KeyGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.keys));
    Tile<M, T> tile(task.keys, features, room);
    T *const dv = room.take(kTokens * wide), *const columns = room.take(kTokens * wide);
    const auto dsums = this->dsums();
    T peak[kTokens];
    std::fill(peak, peak + kTokens, *this->sums().peak);
    for (int64_t number = this->first; number < this->last; ++number) {
      tile.read(number);
      if (task.keys.omega) tile.raise(peak);
      tile.hide(tile.phi, features, T(0));
      read_features(tile, dsums.values, width, dv);
      for (int64_t i = 0; i < tile.rows; ++i)
        std::copy(dv + i * wide, dv + i * wide + width,
                  task.dv.data + (tile.first + i) * task.dv.row);
      transpose_rows<M, T>(task.v.data + tile.first * task.v.row, task.v.row, tile.rows, width,
                           T(1), columns, kTokens);
      feature_slopes(tile, dsums.values, columns, width);
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTokens; ++i) tile.slopes[r * kTokens + i] += dsums.weights[r];
      tile.back();
      tile.write(task.dk);
    }
  }
};

}  // namespace

template <class T>
int64_t feature_sums_size(int64_t features, int64_t value_width) noexcept {
  return features * padded<T>(value_width) + padded<T>(features) + padded<T>(1);
}
int64_t feature_tiles(int64_t tokens) noexcept {
  return (tokens + kTokens - 1) / kTokens;
}
template <class T>
void clear_feature_sums(const FeatureAttention<T>& task, T* sums) noexcept {
  constexpr T kNone = static_cast<T>(-1e30);  // no exponent is below
  std::fill(sums, sums + feature_sums_size<T>(task.features, task.value_width), T(0));
  *Sums<T>(sums, task.features, task.value_width).peak = kNone;
}
template <class T>
void add_feature_sums(const FeatureAttention<T>& task, const T* from, T* sums) noexcept {
  const Sums<T> into(sums, task.features, task.value_width),
      added(const_cast<T*>(from), task.features, task.value_width);
  const T most = std::max(*into.peak, *added.peak), own = std::exp(*into.peak - most),
          other = std::exp(*added.peak - most);
  for (T *x = sums, *y = added.values; x < into.peak; ++x, ++y) *x = own * *x + other * *y;
  *into.peak = most;
}
template <class T>
void sum_keys(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(SumKeys<T>{{task, first, last}});
}
template <class T>
void read_sums(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(ReadSums<T>{{task, first, last}});
}
template <class T>
void query_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(QueryGradients<T>{{task, first, last}});
}
template <class T>
void key_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(KeyGradients<T>{{task, first, last}});
}

template int64_t feature_sums_size<float>(int64_t features, int64_t value_width) noexcept;
template int64_t feature_sums_size<double>(int64_t features, int64_t value_width) noexcept;
template void clear_feature_sums(const FeatureAttention<float>& task, float* sums) noexcept;
template void clear_feature_sums(const FeatureAttention<double>& task, double* sums) noexcept;
template void add_feature_sums(const FeatureAttention<float>& task, const float* from,
                               float* sums) noexcept;
template void add_feature_sums(const FeatureAttention<double>& task, const double* from,
                               double* sums) noexcept;
template void sum_keys(const FeatureAttention<float>& task, int64_t first, int64_t last) noexcept;
template void sum_keys(const FeatureAttention<double>& task, int64_t first, int64_t last) noexcept;
template void read_sums(const FeatureAttention<float>& task, int64_t first, int64_t last) noexcept;
template void read_sums(const FeatureAttention<double>& task, int64_t first, int64_t last) noexcept;
template void query_gradients(const FeatureAttention<float>& task, int64_t first,
                              int64_t last) noexcept;
template void query_gradients(const FeatureAttention<double>& task, int64_t first,
                              int64_t last) noexcept;
template void key_gradients(const FeatureAttention<float>& task, int64_t first,
                            int64_t last) noexcept;
template void key_gradients(const FeatureAttention<double>& task, int64_t first,
                            int64_t last) noexcept;

}  // namespace longbow::kernels

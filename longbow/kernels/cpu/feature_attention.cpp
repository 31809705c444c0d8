// Passes over tiles of tokens; a transposed factor of a product costs nothing.
//   S += phi(k) v,  z += sum_j phi(k_j);   o = phi(q)^T S / d,  w = phi(q) . z.
// Backward, with t = S g^T, y = g / d and c = -(phi(q) . t) / d^2 (the gradient of w):
//   dphi(q) = t / d + z c,  dS += phi(q) y,  dz += phi(q) c;   dphi(k) = dS v^T + dz,  dv =
//   phi(k)^T dS.
#include "longbow/kernels/feature_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longbow/kernels/cpu/feature_rows.h"
#include "longbow/kernels/cpu/feature_sums.h"
#include "longbow/kernels/cpu/feature_tile.h"

namespace longbow::kernels {
namespace {

// out_i = sum_r a_ri b_r.
template <class M, class T>
[[gnu::always_inline]] inline void dot_features(const T* a, const T* b, int64_t features, T* out) {
  for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
    Vector<M, T> sum = {}, x;
    for (int64_t r = 0; r < features; ++r) {
      load(x, a + r * kTileTokens + i);
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
    for (int64_t i = 0; i < kTileTokens; i += kLanes<M, T>) {
      load(x, a + r * kTileTokens + i);
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
[[gnu::always_inline]] inline void add_outer(const FeatureTile<M, T>& tile, const T* y,
                                             int64_t width, T* out) {
  tile_product<M, T>({.rows = tile.features,
                      .columns = width,
                      .depth = tile.rows,
                      .a = tile.phi,
                      .a_row = kTileTokens,
                      .a_step = 1,
                      .b = y,
                      .b_row = padded<T>(width),
                      .out = out,
                      .out_row = padded<T>(width),
                      .add = true});
}
// out [64, D] = phi^T S.
template <class M, class T>
[[gnu::always_inline]] inline void read_features(const FeatureTile<M, T>& tile, const T* sums,
                                                 int64_t width, T* out) {
  tile_product<M, T>({.rows = tile.rows,
                      .columns = width,
                      .depth = tile.features,
                      .a = tile.phi,
                      .a_row = 1,
                      .a_step = kTileTokens,
                      .b = sums,
                      .b_row = padded<T>(width),
                      .out = out,
                      .out_row = padded<T>(width)});
}
// slopes [R, 64] = S y for y [D, 64].
template <class M, class T>
[[gnu::always_inline]] inline void feature_slopes(const FeatureTile<M, T>& tile, const T* sums,
                                                  const T* y, int64_t width) {
  tile_product<M, T>({.rows = tile.features,
                      .columns = kTileTokens,
                      .depth = width,
                      .a = sums,
                      .a_row = padded<T>(width),
                      .a_step = 1,
                      .b = y,
                      .b_row = kTileTokens,
                      .out = tile.slopes,
                      .out_row = kTileTokens});
}

template <class T>
struct Step {
  const FeatureAttention<T>& task;
  int64_t first, last;
  const int64_t features = task.features, width = task.value_width, wide = padded<T>(width);

  SumsLayout<T> sums() const { return {task.sums, features, width}; }
  SumsLayout<T> dsums() const { return {task.dsums, features, width}; }
  int64_t room(const HeadFeatures<T>& of) const {
    return FeatureTile<Portable, T>::room(of, features) + 3 * kTileTokens * wide;
  }
  // The features of queries, relative to their own peaks.
  template <class M>
  [[gnu::always_inline]] void read_queries(FeatureTile<M, T>& tile, int64_t number) const {
    tile.read(number);
    if (!task.queries.omega) return;
    T peak[kTileTokens];
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
    FeatureTile<M, T> tile(task.keys, features, room);
    T* const values = room.take(kTileTokens * wide);
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
  [[gnu::always_inline]] void raise(FeatureTile<M, T>& tile, const SumsLayout<T>& sums) const {
    T peak[kTileTokens];
    tile.peaks(peak);
    tile.hide(peak, 1, -std::numeric_limits<T>::infinity());
    const T most = std::max(*sums.peak, *std::max_element(peak, peak + kTileTokens));
    if (most > *sums.peak) {
      const T shrunk = std::exp(*sums.peak - most);
      for (int64_t i = 0; i < features * wide; ++i) sums.values[i] *= shrunk;
      for (int64_t r = 0; r < features; ++r) sums.weights[r] *= shrunk;
      *sums.peak = most;
    }
    std::fill(peak, peak + kTileTokens, *sums.peak);
    tile.raise(peak);
  }
};

template <class T>
struct ReadSums : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.queries));
    FeatureTile<M, T> tile(task.queries, features, room);
    T* const out = room.take(kTileTokens * wide);
    const auto sums = this->sums();
    for (int64_t number = this->first; number < this->last; ++number) {
      this->read_queries(tile, number);
      T weights[kTileTokens];
      dot_features<M, T>(tile.phi, sums.weights, features, weights);
      read_features(tile, sums.values, width, out);
      for (int64_t i = 0; i < tile.rows; ++i)
        write_read(task, tile.first + i, weights[i], out + i * wide);
    }
  }
};

template <class T>
struct QueryGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.queries));
    FeatureTile<M, T> tile(task.queries, features, room);
    T *const slopes = room.take(kTileTokens * wide), *const columns = room.take(kTileTokens * wide);
    const auto sums = this->sums(), dsums = this->dsums();
    for (int64_t number = this->first; number < this->last; ++number) {
      this->read_queries(tile, number);
      T factor[kTileTokens], weight_slope[kTileTokens];
      copy_rows(task.dout, tile.first, tile.rows, width, slopes);
      transpose_rows<M, T>(slopes, wide, tile.rows, width, T(1), columns, kTileTokens);
      feature_slopes(tile, sums.values, columns, width);  // t
      of_weights(tile, factor, weight_slope);
      for (int64_t i = 0; i < tile.rows; ++i)
        for (int64_t c = 0; c < wide; ++c) slopes[i * wide + c] *= factor[i];
      add_outer(tile, slopes, width, dsums.values);
      add_tokens<M, T>(tile.phi, weight_slope, features, dsums.weights);
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTileTokens; ++i) {
          T& slope = tile.slopes[r * kTileTokens + i];
          slope = slope * factor[i] + sums.weights[r] * weight_slope[i];
        }
      tile.back();
      tile.write(task.dq);
    }
  }

 private:
  // 1 / d, and the gradient of w; zeros behind the last token.
  template <class M>
  [[gnu::always_inline]] void of_weights(const FeatureTile<M, T>& tile, T* factor, T* slope) const {
    T read[kTileTokens];
    std::fill(read, read + kTileTokens, T(0));
    if (task.normalised)
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTileTokens; ++i)
          read[i] += tile.phi[r * kTileTokens + i] * tile.slopes[r * kTileTokens + i];
    for (int64_t i = 0; i < kTileTokens; ++i) {
      const auto found =
          i < tile.rows ? weight_slope(task, tile.first + i, read[i]) : WeightSlope<T>{};
      factor[i] = found.factor;
      slope[i] = found.slope;
    }
  }
};

template <class T>
struct KeyGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(this->room(task.keys));
    FeatureTile<M, T> tile(task.keys, features, room);
    T *const dv = room.take(kTileTokens * wide), *const columns = room.take(kTileTokens * wide);
    const auto dsums = this->dsums();
    T peak[kTileTokens];
    std::fill(peak, peak + kTileTokens, *this->sums().peak);
    for (int64_t number = this->first; number < this->last; ++number) {
      tile.read(number);
      if (task.keys.omega) tile.raise(peak);
      tile.hide(tile.phi, features, T(0));
      read_features(tile, dsums.values, width, dv);
      for (int64_t i = 0; i < tile.rows; ++i)
        std::copy(dv + i * wide, dv + i * wide + width,
                  task.dv.data + (tile.first + i) * task.dv.row);
      transpose_rows<M, T>(task.v.data + tile.first * task.v.row, task.v.row, tile.rows, width,
                           T(1), columns, kTileTokens);
      feature_slopes(tile, dsums.values, columns, width);
      for (int64_t r = 0; r < features; ++r)
        for (int64_t i = 0; i < kTileTokens; ++i)
          tile.slopes[r * kTileTokens + i] += dsums.weights[r];
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
  return (tokens + kTileTokens - 1) / kTileTokens;
}
template <class T>
void clear_feature_sums(const FeatureAttention<T>& task, T* sums) noexcept {
  constexpr T kNone = static_cast<T>(-1e30);  // no exponent is below
  std::fill(sums, sums + feature_sums_size<T>(task.features, task.value_width), T(0));
  *SumsLayout<T>(sums, task.features, task.value_width).peak = kNone;
}
template <class T>
void add_feature_sums(const FeatureAttention<T>& task, const T* from, T* sums) noexcept {
  const SumsLayout<T> into(sums, task.features, task.value_width),
      added(const_cast<T*>(from), task.features, task.value_width);
  const T most = std::max(*into.peak, *added.peak), own = std::exp(*into.peak - most),
          other = std::exp(*added.peak - most);
  for (T *x = sums, *y = added.values; x < into.peak; ++x, ++y) *x = own * *x + other * *y;
  *into.peak = most;
}
template <class T>
void sum_keys(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  if (are_given(task.keys)) return sum_key_rows(task, first, last);
  run_here(SumKeys<T>{{task, first, last}});
}
template <class T>
void read_sums(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  if (are_given(task.queries)) return read_query_rows(task, first, last);
  run_here(ReadSums<T>{{task, first, last}});
}
template <class T>
void query_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  if (are_given(task.queries)) return query_row_gradients(task, first, last);
  run_here(QueryGradients<T>{{task, first, last}});
}
template <class T>
void key_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  if (are_given(task.keys)) return key_row_gradients(task, first, last);
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

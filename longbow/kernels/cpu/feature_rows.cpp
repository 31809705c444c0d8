// Features are read where they stand, and their gradients are formed as rows too: only the sums,
// which are the same for all tokens, are transposed.
#include "longbow/kernels/cpu/feature_rows.h"

#include <algorithm>
#include <cmath>

#include "longbow/kernels/cpu/feature_sums.h"
#include "longbow/kernels/cpu/feature_tile.h"
#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

template <class M, class T>
[[gnu::always_inline]] inline T dot(const T* x, const T* y, int64_t count) {
  constexpr int64_t kLane = kLanes<M, T>;
  Vector<M, T> sum = {}, a, b;
  int64_t r = 0;
  for (; r + kLane <= count; r += kLane) {
    load(a, x + r);
    load(b, y + r);
    sum += a * b;
  }
  T lanes[kLane], total = 0;
  store(sum, lanes);
  for (; r < count; ++r) total += x[r] * y[r];
  for (const T lane : lanes) total += lane;
  return total;
}

template <class T>
struct Step {
  const FeatureAttention<T>& task;
  int64_t first, last;
  const int64_t features = task.features, width = task.value_width, wide = padded<T>(width),
                deep = padded<T>(features);

  SumsLayout<T> sums() const { return {task.sums, features, width}; }
  SumsLayout<T> dsums() const { return {task.dsums, features, width}; }

  // body(first token, how many, their rows) of each tile.
  template <class Body>
  [[gnu::always_inline]] void each_tile(const HeadFeatures<T>& of, const Body& body) const {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t token = tile * kTileTokens;
      body(token, std::min(kTileTokens, of.tokens - token), of.x.data + token * of.x.row);
    }
  }
  // out [R, D] += x^T y for rows of x and y [rows, D].
  template <class M>
  [[gnu::always_inline]] void add_outer(int64_t rows, const T* x, int64_t x_row, const T* y,
                                        T* out) const {
    tile_product<M, T>({.rows = features,
                        .columns = width,
                        .depth = rows,
                        .a = x,
                        .a_row = 1,
                        .a_step = x_row,
                        .b = y,
                        .b_row = wide,
                        .out = out,
                        .out_row = wide,
                        .add = true});
  }
  // out [rows, D] = x S.
  template <class M>
  [[gnu::always_inline]] void read(int64_t rows, const T* x, int64_t x_row, const T* values,
                                   T* out) const {
    tile_product<M, T>({.rows = rows,
                        .columns = width,
                        .depth = features,
                        .a = x,
                        .a_row = x_row,
                        .a_step = 1,
                        .b = values,
                        .b_row = wide,
                        .out = out,
                        .out_row = wide});
  }
  // out [rows, R] = y S^T.
  template <class M>
  [[gnu::always_inline]] void slopes(int64_t rows, const T* y, int64_t y_row, const T* turned,
                                     T* out) const {
    tile_product<M, T>({.rows = rows,
                        .columns = features,
                        .depth = width,
                        .a = y,
                        .a_row = y_row,
                        .a_step = 1,
                        .b = turned,
                        .b_row = deep,
                        .out = out,
                        .out_row = deep});
  }
  template <class M>
  [[gnu::always_inline]] void transpose(const T* values, T* turned) const {
    transpose_rows<M, T>(values, wide, features, width, T(1), turned, deep);
  }
};

template <class T>
struct SumKeys : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide, Step<T>::deep;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(kTileTokens * (wide + deep));
    T *const values = room.take(kTileTokens * wide), *const kept = room.take(kTileTokens * deep);
    const auto sums = this->sums();
    this->each_tile(
        task.keys, [&](int64_t token, int64_t rows, const T* x) __attribute__((always_inline)) {
          const bool* const keep = task.keys.keep ? task.keys.keep + token : nullptr;
          copy_rows(task.v, token, rows, width, values);
          int64_t row = task.keys.x.row;
          if (keep && !std::all_of(keep, keep + rows, [](bool k) { return k; })) {
            hide(keep, rows, x, row, kept, values);
            x = kept;
            row = deep;
          }
          this->template add_outer<M>(rows, x, row, values, sums.values);
          T* const __restrict weights = sums.weights;
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t r = 0; r < features; ++r) weights[r] += x[i * row + r];
        });
  }

 private:
  // Rows of zeros for tokens that are not kept.
  [[gnu::always_inline]] void hide(const bool* keep, int64_t rows, const T* x, int64_t row, T* kept,
                                   T* values) const {
    for (int64_t i = 0; i < rows; ++i)
      if (keep[i])
        std::copy(x + i * row, x + i * row + features, kept + i * deep);
      else {
        std::fill(kept + i * deep, kept + (i + 1) * deep, T(0));
        std::fill(values + i * wide, values + (i + 1) * wide, T(0));
      }
  }
};

template <class T>
struct ReadSums : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(kTileTokens * wide);
    T* const out = room.take(kTileTokens * wide);
    const auto sums = this->sums();
    this->each_tile(
        task.queries, [&](int64_t token, int64_t rows, const T* x) __attribute__((always_inline)) {
          const int64_t row = task.queries.x.row;
          this->template read<M>(rows, x, row, sums.values, out);
          for (int64_t i = 0; i < rows; ++i)
            write_read(task, token + i, dot<M, T>(x + i * row, sums.weights, features),
                       out + i * wide);
        });
  }
};

template <class T>
struct QueryGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide, Step<T>::deep;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(kTileTokens * (wide + deep) + wide * deep);
    T *const dout = room.take(kTileTokens * wide), *const read = room.take(kTileTokens * deep),
             *const turned = room.take(wide * deep);
    const auto sums = this->sums(), dsums = this->dsums();
    this->template transpose<M>(sums.values, turned);
    this->each_tile(
        task.queries, [&](int64_t token, int64_t rows, const T* x) __attribute__((always_inline)) {
          const int64_t row = task.queries.x.row;
          copy_rows(task.dout, token, rows, width, dout);
          this->template slopes<M>(rows, dout, wide, turned, read);
          for (int64_t i = 0; i < rows; ++i) {
            const auto found = weight_slope(
                task, token + i,
                task.normalised ? dot<M, T>(x + i * row, read + i * deep, features) : T(0));
            for (int64_t c = 0; c < wide; ++c) dout[i * wide + c] *= found.factor;
            one(x + i * row, read + i * deep, sums.weights, found, dsums.weights,
                task.dq.data + (token + i) * task.dq.row);
          }
          this->template add_outer<M>(rows, x, row, dout, dsums.values);
        });
  }

 private:
  // dphi = t / d + z c,  dz += phi c.
  [[gnu::always_inline]] void one(const T* x, const T* read, const T* weights,
                                  const WeightSlope<T>& of, T* __restrict dweights,
                                  T* __restrict dx) const {
    for (int64_t r = 0; r < features; ++r) {
      dweights[r] += x[r] * of.slope;
      dx[r] = read[r] * of.factor + weights[r] * of.slope;
    }
  }
};

template <class T>
struct KeyGradients : Step<T> {
  using Step<T>::task, Step<T>::features, Step<T>::width, Step<T>::wide, Step<T>::deep;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(kTileTokens * (wide + deep) + wide * deep);
    T *const dv = room.take(kTileTokens * wide), *const dk = room.take(kTileTokens * deep),
             *const turned = room.take(wide * deep);
    const auto dsums = this->dsums();
    this->template transpose<M>(dsums.values, turned);
    this->each_tile(
        task.keys, [&](int64_t token, int64_t rows, const T* x) __attribute__((always_inline)) {
          this->template read<M>(rows, x, task.keys.x.row, dsums.values, dv);
          this->template slopes<M>(rows, task.v.data + token * task.v.row, task.v.row, turned, dk);
          for (int64_t i = 0; i < rows; ++i)
            write(task.keys.keep && !task.keys.keep[token + i], dv + i * wide, dk + i * deep,
                  dsums.weights, task.dv.data + (token + i) * task.dv.row,
                  task.dk.data + (token + i) * task.dk.row);
        });
  }

 private:
  [[gnu::always_inline]] void write(bool hidden, const T* dv, const T* dk, const T* dweights,
                                    T* __restrict to_v, T* __restrict to_k) const {
    for (int64_t c = 0; c < width; ++c) to_v[c] = hidden ? T(0) : dv[c];
    for (int64_t r = 0; r < features; ++r) to_k[r] = hidden ? T(0) : dk[r] + dweights[r];
  }
};

}  // namespace

template <class T>
void sum_key_rows(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(SumKeys<T>{{task, first, last}});
}
template <class T>
void read_query_rows(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(ReadSums<T>{{task, first, last}});
}
template <class T>
void query_row_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(QueryGradients<T>{{task, first, last}});
}
template <class T>
void key_row_gradients(const FeatureAttention<T>& task, int64_t first, int64_t last) noexcept {
  run_here(KeyGradients<T>{{task, first, last}});
}

template void sum_key_rows(const FeatureAttention<float>& task, int64_t first,
                           int64_t last) noexcept;
template void sum_key_rows(const FeatureAttention<double>& task, int64_t first,
                           int64_t last) noexcept;
template void read_query_rows(const FeatureAttention<float>& task, int64_t first,
                              int64_t last) noexcept;
template void read_query_rows(const FeatureAttention<double>& task, int64_t first,
                              int64_t last) noexcept;
template void query_row_gradients(const FeatureAttention<float>& task, int64_t first,
                                  int64_t last) noexcept;
template void query_row_gradients(const FeatureAttention<double>& task, int64_t first,
                                  int64_t last) noexcept;
template void key_row_gradients(const FeatureAttention<float>& task, int64_t first,
                                int64_t last) noexcept;
template void key_row_gradients(const FeatureAttention<double>& task, int64_t first,
                                int64_t last) noexcept;

}  // namespace longbow::kernels

// A tile of queries is transposed once; tiles of keys and values pass by. Scores have a row for
// each key, so that a vector holds one key and many queries: the largest score and the sum of
// weights of each query are sums of vectors, and no product needs keys or values transposed. How
// operands lie, and of what type they are, is the affair of cpu/tile_operands.h.
//   s = K q,  o += p^T V;   backward  dp = V g,  ds = p (dp - delta),  dv += p g^T,  dk += ds q^T,
//   dq += ds^T K.
#include "longbow/kernels/tile_attention.h"

#include <type_traits>

#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_pass.h"

namespace longbow::kernels {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// Of each query the largest score so far and the sum of weights relative to it.
template <class M, class T, class Row>
struct Totals {
  using Form = TileOperands<M, T, Row>;
  // `shares` are of the weights as they are multiplied.
  T top[kTileSide], total[kTileSide], shares[kTileSide], shrunk[kTileSide];

  [[gnu::always_inline]] Totals() {
    std::fill(top, top + kTileSide, -kInfinity<T>);
    std::fill(total, total + kTileSide, T(0));
    std::fill(shares, shares + kTileSide, T(0));
  }

  // Scores become weights; what was summed before is to be multiplied by `shrunk`.
  [[gnu::always_inline]] void weigh(T* scores, int64_t rows, int64_t columns) {
    using V = Vector<M, T>;
    for (int64_t c = 0; c < columns; c += kLanes<M, T>) {
      V before, score, sum, share;
      load(before, top + c);
      V most = before;
      for (int64_t j = 0; j < rows; ++j) {
        load(score, scores + j * kTileSide + c);
        most = score > most ? score : most;
      }
      store(most, top + c);
      const V shift = most == -kInfinity<T> ? V{} : most;  // nothing seen: exp(-inf - 0) = 0
      V factor = before - shift;
      exponentiate<M, T>(factor);
      store(factor, shrunk + c);
      load(sum, total + c);
      load(share, shares + c);
      sum *= factor;
      share *= factor;
      for (int64_t j = 0; j < rows; ++j) {
        load(score, scores + j * kTileSide + c);
        score -= shift;
        exponentiate<M, T>(score);
        sum += score;
        Form::round(score);
        share += score;
        store(score, scores + j * kTileSide + c);
      }
      store(sum, total + c);
      store(share, shares + c);
    }
  }
};

template <class M, class T>
[[gnu::always_inline]] inline T dot(const T* a, const T* b, int64_t count) {
  Vector<M, T> sum = {}, x, y;
  int64_t i = 0;
  for (; i + kLanes<M, T> <= count; i += kLanes<M, T>) {
    load(x, a + i);
    load(y, b + i);
    sum += x * y;
  }
  T lanes[kLanes<M, T>], total = 0;
  store(sum, lanes);
  for (const T lane : lanes) total += lane;
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}
template <class M>
[[gnu::always_inline]] inline float dot(const float* a, const Bfloat16* b, int64_t count) {
  float total = 0;
  for (int64_t i = 0; i < count; ++i)
    total += a[i] * __builtin_bit_cast(float, static_cast<uint32_t>(b[i].bits) << 16);
  return total;
}

// Below it a score gives no weight, without a softmax. Pairs that do not see each other have a
// score of -infinity. Comparisons are such that what is not a number stays so.
template <class T>
constexpr T floor_of(TileWeights weights) {
  return weights == TileWeights::relu ? T(0) : -kInfinity<T>;
}

template <class T, class Row>
struct Forward {
  const TileAttention<T, Row>& task;
  int64_t first, last;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(TilePass<M, T, Row>::room(task) +
                     kTileSide * (2 * padded<T>(task.value_width) + kTileSide));
    for (int64_t number = first; number < last; ++number) {
      const QueryTile tile(number, task.queries, task.query_block);
      room.clear();
      if (tile.rows > 0) attend<M>(tile, room);
    }
  }

 private:
  template <class M>
  [[gnu::always_inline]] void weigh_scores(const TilePass<M, T, Row>& pass) const {
    for (int64_t j = 0; j < pass.found.rows; ++j)
      for (int64_t c = 0; c < pass.columns; c += kLanes<M, T>) {
        Vector<M, T> score;
        load(score, pass.scores + j * kTileSide + c);
        score = score <= floor_of<T>(task.weights) ? Vector<M, T>{} : score;
        store(score, pass.scores + j * kTileSide + c);
      }
  }

  template <class M>
  [[gnu::always_inline]] void attend(const QueryTile& tile, TileRoom<T>& room) const {
    using Form = TileOperands<M, T, Row>;
    TilePass<M, T, Row> pass(task, tile, room);
    const int64_t wide = pass.value_wide;
    T *const sums = room.take(kTileSide * wide), *const values = room.take(kTileSide * wide),
             *const weights = room.take(kTileSide * kTileSide);
    std::fill(sums, sums + tile.rows * wide, T(0));
    Totals<M, T, Row> totals;
    pass.each_tile([&]() __attribute__((always_inline)) {
      if (task.weights != TileWeights::softmax) {
        weigh_scores(pass);
      } else {
        totals.weigh(pass.scores, pass.found.rows, pass.columns);
        for (int64_t i = 0; i < tile.rows; ++i)
          for (int64_t c = 0; c < wide; ++c) sums[i * wide + c] *= totals.shrunk[i];
      }
      pass.drop(pass.scores);
      const int64_t keys = pass.found.rows;
      Form::multiply(Form::queries(pass.scores, keys, weights),
                     Form::rows(pass.values, keys, task.value_width, values),
                     {.rows = tile.rows,
                      .columns = task.value_width,
                      .depth = keys,
                      .out = sums,
                      .out_row = wide,
                      .add = true});
    });
    for (int64_t i = 0; i < tile.rows; ++i) {
      const T total = totals.total[i], shares = totals.shares[i];
      const bool softmax = task.weights == TileWeights::softmax;
      const T factor = !softmax ? T(1) : shares > 0 ? 1 / shares : T(0);
      T* const out = task.out.data + (tile.first + i) * task.out.row;
      for (int64_t c = 0; c < task.value_width; ++c) out[c] = factor * sums[i * wide + c];
      // Only a query that saw nothing has no sum: what is not a number stays so.
      if (task.log_sum)
        task.log_sum[tile.first + i] = total == 0 ? -kInfinity<T> : totals.top[i] + std::log(total);
    }
  }
};

template <class T, class Row>
struct Backward {
  const TileAttentionBackward<T, Row>& task;
  int64_t first, last;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const auto& past = task.past;
    const int64_t wide = padded<T>(past.width), value_wide = padded<T>(past.value_width);
    TileRoom<T> room(TilePass<M, T, Row>::room(past) +
                     kTileSide * (5 * wide + 4 * value_wide + 5 * kTileSide));
    for (int64_t number = first; number < last; ++number) {
      const QueryTile tile(number, past.queries, past.query_block);
      room.clear();
      if (tile.rows > 0) return_to<M>(tile, room);
    }
  }

 private:
  // What a tile of queries keeps while keys pass by.
  template <class Form>
  struct Room {
    typename Form::Right queries, slopes, slope_columns;  // [64, E], dout: [64, D], [D, 64]
    T *dq, *dk, *dv;                                      // [64, E], [64, E], [64, D]
    T *ds, *dropped;                                      // [64, 64]
    T *keys, *weights, *turned;                           // for operands: [64, E], [64, 64] twice
  };

  // From the gradients of a tile of queries to those of all that they read.
  template <class M>
  [[gnu::always_inline]] void return_to(const QueryTile& tile, TileRoom<T>& memory) const {
    using Form = TileOperands<M, T, Row>;
    const auto& past = task.past;
    TilePass<M, T, Row> pass(past, tile, memory);
    const int64_t wide = pass.wide, value_wide = pass.value_wide;
    const auto take = [&](int64_t columns) __attribute__((always_inline)) {
      return memory.take(kTileSide * columns);
    };
    const auto queries = pass.own_copy(past.q, past.width, pass.take_rows(memory, past.width)),
               slopes = pass.own_copy(task.dout, past.value_width,
                                      pass.take_rows(memory, past.value_width));
    const Room<Form> room = {
        .queries = Form::rows(queries, tile.rows, past.width, take(wide)),
        .slopes = Form::rows(slopes, tile.rows, past.value_width, take(value_wide)),
        .slope_columns = Form::columns(slopes, tile.rows, past.value_width, T(1), take(value_wide)),
        .dq = take(wide),
        .dk = take(wide),
        .dv = take(value_wide),
        .ds = take(kTileSide),
        .dropped = take(kTileSide),
        .keys = take(wide),
        .weights = take(kTileSide),
        .turned = take(kTileSide)};
    std::fill(room.dq, room.dq + tile.rows * wide, T(0));
    T log_sum[kTileSide], delta[kTileSide];
    const bool whole = pass.sight.places() <= kTileSide;
    sums_of<M>(tile, slopes, whole, log_sum, delta);
    pass.each_tile([&]() __attribute__((always_inline)) {
      read_slopes<Form>(pass, room);
      weigh<M>(pass, room.ds, whole, log_sum, delta);
      add_gradients<Form>(pass, room);
    });
    for (int64_t i = 0; i < tile.rows; ++i) {
      T* const row = task.dq.data + (tile.first + i) * task.dq.row;
      for (int64_t c = 0; c < past.width; ++c) row[c] = past.scale * room.dq[i * wide + c];
    }
  }

  // dp = V g, in ds.
  template <class Form, class M>
  [[gnu::always_inline]] void read_slopes(const TilePass<M, T, Row>& pass,
                                          const Room<Form>& room) const {
    Form::multiply(Form::left(pass.values), room.slope_columns,
                   {.rows = pass.found.rows,
                    .columns = pass.columns,
                    .depth = task.past.value_width,
                    .out = room.ds,
                    .out_row = kTileSide});
    pass.drop(room.ds);
  }
  // Of a tile of keys: dk = ds q^T and dv = p g^T are written, dq += ds^T K stays.
  template <class Form, class M>
  [[gnu::always_inline]] void add_gradients(const TilePass<M, T, Row>& pass,
                                            const Room<Form>& room) const {
    const auto& past = task.past;
    const int64_t rows = pass.found.rows, wide = pass.wide, value_wide = pass.value_wide;
    const T* weights = pass.scores;
    if (past.key) {
      std::copy(pass.scores, pass.scores + rows * kTileSide, room.dropped);
      pass.drop(room.dropped);
      weights = room.dropped;
    }
    Form::multiply(Form::keys(weights, rows, room.weights), room.slopes,
                   {.rows = rows,
                    .columns = past.value_width,
                    .depth = pass.tile.rows,
                    .out = room.dv,
                    .out_row = value_wide});
    Form::multiply(Form::keys(room.ds, rows, room.weights), room.queries,
                   {.rows = rows,
                    .columns = past.width,
                    .depth = pass.tile.rows,
                    .out = room.dk,
                    .out_row = wide});
    Form::multiply(Form::queries(room.ds, rows, room.turned),
                   Form::rows(pass.keys, rows, past.width, room.keys),
                   {.rows = pass.tile.rows,
                    .columns = past.width,
                    .depth = rows,
                    .out = room.dq,
                    .out_row = wide,
                    .add = true});
    for (int64_t j = 0; j < rows; ++j) {
      add_row(room.dk + j * wide, past.scale, past.width, task.dk, pass.found.token[j]);
      add_row(room.dv + j * value_wide, T(1), past.value_width, task.dv, pass.found.token[j]);
    }
    if (task.dbias)
      pass.sight.each_bias(
          pass.found, [&](int64_t pair, int64_t number)
                          __attribute__((always_inline)) { task.dbias[number] += room.ds[pair]; });
  }

  [[gnu::always_inline]] void add_row(const T* from, T factor, int64_t width, const Rows<T>& to,
                                      int64_t token) const {
    T* const row = to.data + token * to.row;
    if (task.fresh)
      for (int64_t c = 0; c < width; ++c) row[c] = factor * from[c];
    else
      for (int64_t c = 0; c < width; ++c) row[c] += factor * from[c];
  }

  // The logarithms of the sums, infinite where nothing was seen, and delta = out . dout - dlog_sum;
  // the first is sum_j p_j dp_j, and left to `weigh` where one tile has all keys.
  template <class M>
  [[gnu::always_inline]] void sums_of(const QueryTile& tile, const Rows<const Row>& slopes,
                                      bool whole, T* log_sum, T* delta) const {
    const auto& past = task.past;
    std::fill(log_sum, log_sum + kTileSide, kInfinity<T>);
    std::fill(delta, delta + kTileSide, T(0));
    if (past.weights != TileWeights::softmax) return;
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t n = tile.first + i;
      const T* const out = past.out.data + n * past.out.row;
      if (past.log_sum[n] != -kInfinity<T>) log_sum[i] = past.log_sum[n];
      if (!whole) delta[i] = dot<M>(out, slopes.data + i * slopes.row, past.value_width);
      if (task.dlog_sum) delta[i] -= task.dlog_sum[n];
    }
  }

  // Scores become weights, and their gradients those of the scores.
  template <class M>
  [[gnu::always_inline]] void weigh(const TilePass<M, T, Row>& pass, T* slopes, bool whole,
                                    const T* log_sum, const T* delta) const {
    using V = Vector<M, T>;
    const bool shares = task.past.weights == TileWeights::softmax;
    const int64_t rows = pass.found.rows;
    for (int64_t c = 0; c < pass.columns; c += kLanes<M, T>) {
      T *const score = pass.scores + c, *const slope = slopes + c;
      V shift, mean, weight, d, sum = {}, total = {};
      load(shift, log_sum + c);
      load(mean, delta + c);
      for (int64_t j = 0; j < rows * kTileSide; j += kTileSide) {
        load(weight, score + j);
        load(d, slope + j);
        if (!shares) {
          const T floor = floor_of<T>(task.past.weights);
          d = weight <= floor ? V{} : d;
          weight = weight <= floor ? V{} : weight;
          store(d, slope + j);
        } else {
          weight -= shift;
          exponentiate<M, T>(weight);
          sum += weight * d;
          total += weight;
        }
        store(weight, score + j);
      }
      if (!shares) continue;
      // Weights that do not sum to 1 exactly would leave their share of what all slopes have in
      // common.
      if (whole) mean += total > 0 ? sum / total : V{};
      for (int64_t j = 0; j < rows * kTileSide; j += kTileSide) {
        load(weight, score + j);
        load(d, slope + j);
        d = weight * (d - mean);
        store(d, slope + j);
      }
    }
  }
};

// There are products of halves on machines of one kind alone.
template <class T, class Row, class Task>
void run(const Task& task) {
  if constexpr (std::is_same_v<T, Row>) return run_here(task);
#ifdef __x86_64__
  else
    return Avx512::run(task);
#endif
}

}  // namespace

int64_t query_tiles(int64_t queries, int64_t query_block) noexcept {
  const int64_t blocks = (queries + query_block - 1) / query_block;
  return blocks * ((query_block + kTileSide - 1) / kTileSide);
}
template <class T, class Row>
void tile_attention(const TileAttention<T, Row>& task, int64_t first, int64_t last) noexcept {
  run<T, Row>(Forward<T, Row>{task, first, last});
}
template <class T, class Row>
void tile_attention_backward(const TileAttentionBackward<T, Row>& task, int64_t first,
                             int64_t last) noexcept {
  run<T, Row>(Backward<T, Row>{task, first, last});
}

template void tile_attention(const TileAttention<float>& task, int64_t first,
                             int64_t last) noexcept;
template void tile_attention(const TileAttention<double>& task, int64_t first,
                             int64_t last) noexcept;
template void tile_attention(const TileAttention<float, Bfloat16>& task, int64_t first,
                             int64_t last) noexcept;
template void tile_attention_backward(const TileAttentionBackward<float>& task, int64_t first,
                                      int64_t last) noexcept;
template void tile_attention_backward(const TileAttentionBackward<double>& task, int64_t first,
                                      int64_t last) noexcept;
template void tile_attention_backward(const TileAttentionBackward<float, Bfloat16>& task,
                                      int64_t first, int64_t last) noexcept;

}  // namespace longbow::kernels

// A chunk of 64 tokens is cut into groups of 16. With d = exp(g) by channel and D_ji = d_{j+1} …
// d_i:
//   s_ij = sum_c x_i y_j D_ji   is a product over channels where i is in a later group than j: of
//   x_i faded since its group began and y_j faded until then. Within a group it is summed by pairs.
//   out = s z + (x E) S,   S' = E_last S + (y F)^T z,
// where E_i is the decay from before the chunk to token i and F_j that from token j to the last.
// Backward, with P = dout z^T in place of s:
//   dz = s^T dout + (y F) dS',   dx = P y D + E (dout S^T),   dy = P^T x D + F (z dS'^T),
//   dS = E_last dS' + (x E)^T dout,   dg_t = S' . dS' + sum_{i >= t} (x_i dx_i - y_i dy_i):
// what passes token t is what ends there or later, less what begins there or later. Decays are
// products of numbers up to 1, never quotients: what follows a large decay is exact.
#include <algorithm>
#include <cmath>

#include "longbow/kernels/cpu/chunk_rows.h"
#include "longbow/kernels/cpu/exponential.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"
#include "longbow/kernels/faded_blocks.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kChunk = kFadedChunk, kGroup = 16;

// x, y and decays of a chunk, [64, deep], and their scores s^T [j, i].
template <class M, class T>
struct Chunk {
  using V = Vector<M, T>;
  static constexpr int64_t kLane = kLanes<M, T>;
  const FadedBlocks<T>& task;
  const int64_t deep;
  int64_t first = 0, rows = 0;
  T *d, *x, *y;
  T *in_group, *since;  // x faded since its group began, since the chunk began
  T *until, *earlier;   // y faded until the chunk ends, until a later group begins
  T *turned, *scores;   // in_group^T [deep, 64]; [64, 64]
  T* whole;             // E_last [deep]

  [[gnu::always_inline]] Chunk(const FadedBlocks<T>& given, TileRoom<T>& room)
      : task(given),
        deep(padded<T>(given.width)),
        d(room.take(kChunk * deep)),
        x(room.take(kChunk * deep)),
        y(room.take(kChunk * deep)),
        in_group(room.take(kChunk * deep)),
        since(room.take(kChunk * deep)),
        until(room.take(kChunk * deep)),
        earlier(room.take(kChunk * deep)),
        turned(room.take(kChunk * deep)),
        scores(room.take(kChunk * kChunk)),
        whole(room.take(deep)) {}
  static int64_t room(const FadedBlocks<T>& given) {
    return padded<T>(given.width) * (8 * kChunk + 1) + kChunk * kChunk;
  }

  [[gnu::always_inline]] void read(int64_t number) {
    first = number * kChunk;
    rows = std::min(kChunk, task.tokens - first);
    read_rows(task.log_decay.data + first * task.log_decay.row, task.log_decay.row, rows,
              task.width, T(1), d);
    read_rows(task.x.data + first * task.x.row, task.x.row, rows, task.width, task.scale, x);
    read_rows(task.y.data + first * task.y.row, task.y.row, rows, task.width, T(1), y);
    V v;
    for (int64_t i = 0; i < rows * deep; i += kLane) {
      load(v, d + i);
      exponentiate<M, T>(v);
      store(v, d + i);
    }
    fade();
    score();
  }

  // to_j = from_j d_{j+1} … d_{end-1}, for tokens before `end`.
  [[gnu::always_inline]] void fade_until(const T* from, int64_t end, T* to) const {
    for (int64_t c = 0; c < deep; c += kLane) {
      V w = V{} + T(1), v;
      for (int64_t j = end - 1; j >= 0; --j) {
        load(v, from + j * deep + c);
        v *= w;
        store(v, to + j * deep + c);
        load(v, d + j * deep + c);
        w *= v;
      }
    }
  }
  // to_i = from_i d_start … d_i, where a token is the start of its own `span`.
  [[gnu::always_inline]] void fade_since(const T* from, int64_t span, T* to, T* last) const {
    for (int64_t c = 0; c < deep; c += kLane) {
      V w = V{} + T(1), v;
      for (int64_t i = 0; i < rows; ++i) {
        if (i % span == 0) w = V{} + T(1);
        load(v, d + i * deep + c);
        w *= v;
        load(v, from + i * deep + c);
        v *= w;
        store(v, to + i * deep + c);
      }
      if (last) store(w, last + c);
    }
  }

  // body(j, i, D_ji) over pairs j <= i of each group, by vectors of channels from c on.
  template <class Body>
  [[gnu::always_inline]] void each_pair(int64_t c, const Body& body) const {
    for (int64_t j = 0; j < rows; ++j) {
      V w = V{} + T(1), v;
      for (int64_t i = j; i < std::min(rows, (j / kGroup + 1) * kGroup); ++i) {
        if (i > j) {
          load(v, d + i * deep + c);
          w *= v;
        }
        body(j, i, w);
      }
    }
  }

 private:
  [[gnu::always_inline]] void fade() {
    fade_since(x, kGroup, in_group, nullptr);
    fade_since(x, kChunk, since, whole);
    fade_until(y, rows, until);
  }
  [[gnu::always_inline]] void score() {
    transpose_rows<M, T>(in_group, deep, rows, task.width, T(1), turned, kChunk);
    std::fill(scores, scores + kChunk * kChunk, T(0));
    for (int64_t begin = kGroup; begin < rows; begin += kGroup) {
      fade_until(y, begin, earlier);
      tile_product<M, T>({.rows = begin,
                          .columns = kGroup,
                          .depth = task.width,
                          .a = earlier,
                          .a_row = deep,
                          .a_step = 1,
                          .b = turned + begin,
                          .b_row = kChunk,
                          .out = scores + begin,
                          .out_row = kChunk});
    }
    for (int64_t c = 0; c < deep; c += kLane)
      each_pair(
          c, [&](int64_t j, int64_t i, const V& w) __attribute__((always_inline)) {
            V a, b;
            load(a, y + j * deep + c);
            load(b, x + i * deep + c);
            a *= b * w;
            T parts[kLane], sum = 0;
            store(a, parts);
            for (const T part : parts) sum += part;
            scores[j * kChunk + i] += sum;
          });
  }
};

template <class T>
struct Forward {
  const FadedBlocks<T>& task;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t width = task.width, columns = task.columns, wide = padded<T>(columns);
    TileRoom<T> room(Chunk<M, T>::room(task) + wide * (width + 2 * kChunk));
    Chunk<M, T> chunk(task, room);
    T *const sums = room.take(width * wide), *const values = room.take(kChunk * wide),
             *const out = room.take(kChunk * wide);
    if (task.first.data)
      read_rows(task.first.data, task.first.row, width, columns, T(1), sums);
    else
      std::fill(sums, sums + width * wide, T(0));
    for (int64_t number = 0; number < faded_chunks(task.tokens); ++number) {
      chunk.read(number);
      const int64_t rows = chunk.rows, first = chunk.first, deep = chunk.deep;
      if (task.before)
        write_rows(sums, width, columns, task.before + number * width * columns, columns);
      read_rows(task.z.data + first * task.z.row, task.z.row, rows, columns, T(1), values);
      multiply<M, T>(rows, width, columns, chunk.since, deep, 1, sums, out);
      multiply<M, T>(rows, rows, columns, chunk.scores, 1, kChunk, values, out, true);
      write_rows(out, rows, columns, task.out.data + first * task.out.row, task.out.row);
      for (int64_t c = 0; c < width; ++c)
        for (int64_t i = 0; i < wide; ++i) sums[c * wide + i] *= chunk.whole[c];
      multiply<M, T>(width, rows, columns, chunk.until, 1, deep, values, sums, true);
    }
    write_rows(sums, width, columns, task.last.data, task.last.row);
  }
};

template <class T>
struct Backward {
  const FadedBlocksBackward<T>& task;
  const FadedBlocks<T>& past = task.past;
  const int64_t width = past.width, columns = past.columns, wide = padded<T>(columns),
                deep = padded<T>(width);

  struct Room {
    T *values, *slopes, *dvalues;             // z, dout, dz: [64, wide]
    T *slopes_turned, *state, *state_turned;  // [wide, 64]; S [width, wide]; S^T or dS'^T
    T *pairs, *dx, *dy, *read;                // P^T [j, i]; [64, deep]
    T* passing;                               // [deep]
  };

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(Chunk<M, T>::room(past) + wide * (4 * kChunk + 2 * width + deep) +
                     kChunk * (kChunk + 3 * deep) + deep);
    Chunk<M, T> chunk(past, room);
    T* const dsums = room.take(width * wide);
    const Room of = {.values = room.take(kChunk * wide),
                     .slopes = room.take(kChunk * wide),
                     .dvalues = room.take(kChunk * wide),
                     .slopes_turned = room.take(wide * kChunk),
                     .state = room.take(width * wide),
                     .state_turned = room.take(wide * deep),
                     .pairs = room.take(kChunk * kChunk),
                     .dx = room.take(kChunk * deep),
                     .dy = room.take(kChunk * deep),
                     .read = room.take(kChunk * deep),
                     .passing = room.take(deep)};
    read_rows(task.dlast.data, task.dlast.row, width, columns, T(1), dsums);
    for (int64_t number = faded_chunks(past.tokens) - 1; number >= 0; --number) {
      chunk.read(number);
      read_rows(past.before + number * width * columns, columns, width, columns, T(1), of.state);
      const int64_t rows = chunk.rows, first = chunk.first;
      read_rows(past.z.data + first * past.z.row, past.z.row, rows, columns, T(1), of.values);
      read_rows(task.dout.data + first * task.dout.row, task.dout.row, rows, columns, T(1),
                of.slopes);
      of_values<M>(chunk, dsums, of);
      of_sums<M>(chunk, dsums, of);
      of_pairs<M>(chunk, of);
      write<M>(chunk, of);
    }
    write_rows(dsums, width, columns, task.dfirst.data, task.dfirst.row);
  }

 private:
  // dz, and P^T where i >= j.
  template <class M>
  [[gnu::always_inline]] void of_values(const Chunk<M, T>& chunk, const T* dsums,
                                        const Room& of) const {
    const int64_t rows = chunk.rows;
    multiply<M, T>(rows, width, columns, chunk.until, deep, 1, dsums, of.dvalues);
    multiply<M, T>(rows, rows, columns, chunk.scores, kChunk, 1, of.slopes, of.dvalues, true);
    write_rows(of.dvalues, rows, columns, task.dz.data + chunk.first * task.dz.row, task.dz.row);
    transpose_rows<M, T>(of.slopes, wide, rows, columns, T(1), of.slopes_turned, kChunk);
    multiply<M, T>(rows, columns, kChunk, of.values, wide, 1, of.slopes_turned, of.pairs);
  }

  // What passes between the tokens and the sums before and behind them.
  template <class M>
  [[gnu::always_inline]] void of_sums(const Chunk<M, T>& chunk, T* dsums, const Room& of) const {
    const int64_t rows = chunk.rows;
    std::fill(of.passing, of.passing + deep, T(0));
    for (int64_t c = 0; c < width; ++c) {
      T sum = 0;
      for (int64_t i = 0; i < columns; ++i) sum += of.state[c * wide + i] * dsums[c * wide + i];
      of.passing[c] = chunk.whole[c] * sum;
    }
    transpose_rows<M, T>(of.state, wide, width, columns, T(1), of.state_turned, deep);
    multiply<M, T>(rows, columns, width, of.slopes, wide, 1, of.state_turned, of.read);
    chunk.fade_since(of.read, kChunk, of.dx, nullptr);
    transpose_rows<M, T>(dsums, wide, width, columns, T(1), of.state_turned, deep);
    multiply<M, T>(rows, columns, width, of.values, wide, 1, of.state_turned, of.read);
    chunk.fade_until(of.read, rows, of.dy);
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t c = 0; c < width; ++c)
        of.passing[c] += chunk.y[j * deep + c] * of.dy[j * deep + c];
    for (int64_t c = 0; c < width; ++c)
      for (int64_t i = 0; i < wide; ++i) dsums[c * wide + i] *= chunk.whole[c];
    multiply<M, T>(width, rows, columns, chunk.since, 1, deep, of.slopes, dsums, true);
  }

  template <class M>
  [[gnu::always_inline]] void of_pairs(const Chunk<M, T>& chunk, const Room& of) const {
    using V = Vector<M, T>;
    const int64_t rows = chunk.rows;
    for (int64_t begin = kGroup; begin < rows; begin += kGroup) {
      const int64_t count = std::min(kGroup, rows - begin);
      chunk.fade_until(chunk.y, begin, chunk.earlier);
      multiply<M, T>(count, begin, width, of.pairs + begin, 1, kChunk, chunk.earlier, of.read);
      add_faded_group(chunk, begin, count, of.read, of.dx);
      multiply<M, T>(begin, count, width, of.pairs + begin, kChunk, 1,
                     chunk.in_group + begin * deep, of.read);
      chunk.fade_until(of.read, begin, of.read);
      for (int64_t i = 0; i < begin * deep; ++i) of.dy[i] += of.read[i];
    }
    for (int64_t c = 0; c < deep; c += kLanes<M, T>)
      chunk.each_pair(
          c, [&](int64_t j, int64_t i, const V& w) __attribute__((always_inline)) {
            V a, sum;
            const V p = w * of.pairs[j * kChunk + i];
            load(a, chunk.y + j * deep + c);
            load(sum, of.dx + i * deep + c);
            sum += p * a;
            store(sum, of.dx + i * deep + c);
            load(a, chunk.x + i * deep + c);
            load(sum, of.dy + j * deep + c);
            sum += p * a;
            store(sum, of.dy + j * deep + c);
          });
  }
  // to_i += from_i faded since the group began.
  template <class M>
  [[gnu::always_inline]] void add_faded_group(const Chunk<M, T>& chunk, int64_t begin,
                                              int64_t count, const T* from, T* to) const {
    using V = Vector<M, T>;
    for (int64_t c = 0; c < deep; c += kLanes<M, T>) {
      V w = V{} + T(1), v, sum;
      for (int64_t i = 0; i < count; ++i) {
        load(v, chunk.d + (begin + i) * deep + c);
        w *= v;
        load(v, from + i * deep + c);
        load(sum, to + (begin + i) * deep + c);
        sum += w * v;
        store(sum, to + (begin + i) * deep + c);
      }
    }
  }

  template <class M>
  [[gnu::always_inline]] void write(const Chunk<M, T>& chunk, const Room& of) const {
    const int64_t rows = chunk.rows, first = chunk.first;
    for (int64_t t = rows - 1; t >= 0; --t) {
      T* const dg = task.dlog_decay.data + (first + t) * task.dlog_decay.row;
      for (int64_t c = 0; c < width; ++c) {
        const int64_t at = t * deep + c;
        of.passing[c] += chunk.x[at] * of.dx[at] - chunk.y[at] * of.dy[at];
        dg[c] = of.passing[c];
        of.dx[at] *= past.scale;
      }
    }
    write_rows(of.dx, rows, width, task.dx.data + first * task.dx.row, task.dx.row);
    write_rows(of.dy, rows, width, task.dy.data + first * task.dy.row, task.dy.row);
  }
};

}  // namespace

template <class T>
void faded_rows(const FadedBlocks<T>& task) noexcept {
  run_here(Forward<T>{task});
}
template <class T>
void faded_rows_backward(const FadedBlocksBackward<T>& task) noexcept {
  run_here(Backward<T>{task});
}

template void faded_rows(const FadedBlocks<float>& task) noexcept;
template void faded_rows(const FadedBlocks<double>& task) noexcept;
template void faded_rows_backward(const FadedBlocksBackward<float>& task) noexcept;
template void faded_rows_backward(const FadedBlocksBackward<double>& task) noexcept;

}  // namespace longbow::kernels

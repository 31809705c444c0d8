// In a chunk, with S the sums before it, D_ij = exp(g_{j+1} + … + g_i) for j <= i, E_i the decay
// from before the chunk to token i, F_j that from token j to the last one, and s = x y^T:
//   out = (s * D) z + E x S,   S' = E_last S + y^T (F z).
// Backward, with d = dout and P = (d z^T) * D:
//   dz = (s * D)^T d + F y dS',   dx = P y + E d S^T,   dy = P^T x + F z dS'^T,
//   dS = E_last dS' + x^T (E d),
// and a decay g_t changes what passes token t: what tokens i >= t read of S and of tokens j < t,
// and what S and tokens j < t write to S'. Decays are products of numbers up to 1, never quotients:
// what follows a large decay is exact.
#include "longbow/kernels/faded_blocks.h"

#include <algorithm>
#include <cmath>

#include "longbow/kernels/cpu/chunk_rows.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kChunk = kFadedChunk;

// The decays of a block in a chunk.
template <class T>
struct Fading {
  T pairs[kChunk * kChunk];  // D, [i, j]
  T since[kChunk];           // E
  const T* until;            // F: the last row of D

  [[gnu::always_inline]] void read(const T* log_decay, int64_t row, int64_t rows) {
    T all = 1;
    for (int64_t i = 0; i < rows; ++i) {
      const T decay = std::exp(log_decay[i * row]);
      all *= decay;
      since[i] = all;
      T* const now = pairs + i * kChunk;
      if (i == 0)
        std::fill(now, now + kChunk, T(0));
      else
        for (int64_t j = 0; j < kChunk; ++j) now[j] = decay * now[j - kChunk];
      now[i] = 1;
    }
    until = pairs + (rows - 1) * kChunk;
  }
  T whole(int64_t rows) const { return since[rows - 1]; }
};

// In parts, so that vectors add it up.
template <class T>
[[gnu::always_inline]] inline T dot(const T* a, const T* b, int64_t count) {
  constexpr int64_t kParts = 16;
  T parts[kParts] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kParts <= count; i += kParts)
    for (int64_t r = 0; r < kParts; ++r) parts[r] += a[i + r] * b[i + r];
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const T part : parts) sum += part;
  return sum;
}

// y_i *= factor_i for rows of whole vectors.
template <class T>
[[gnu::always_inline]] inline void scale_rows(T* y, const T* factor, int64_t rows, int64_t wide) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < wide; ++c) y[i * wide + c] *= factor[i];
}
template <class T>
struct Forward {
  const FadedBlocks<T>& task;
  const int64_t width = task.width, columns = task.columns, wide = padded<T>(columns),
                deep = padded<T>(width), size = width * wide;

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(task.blocks * size + kChunk * (deep + 2 * kChunk + 2 * wide));
    T *const sums = room.take(task.blocks * size), *const turned = room.take(kChunk * deep),
             *const scores = room.take(kChunk * kChunk), *const faded = room.take(kChunk * kChunk),
             *const values = room.take(kChunk * wide), *const out = room.take(kChunk * wide);
    for (int64_t b = 0; b < task.blocks; ++b)
      if (task.first.data)
        read_rows(task.first.data + b * columns, task.first.row, width, columns, T(1),
                  sums + b * size);
      else
        std::fill(sums + b * size, sums + (b + 1) * size, T(0));
    Fading<T> fading;
    for (int64_t chunk = 0; chunk < faded_chunks(task.tokens); ++chunk) {
      const int64_t first = chunk * kChunk, rows = std::min(kChunk, task.tokens - first);
      const T *const x = task.x.data + first * task.x.row, *const y =
                                                               task.y.data + first * task.y.row;
      transpose_rows<M, T>(y, task.y.row, rows, width, task.scale, turned, kChunk);
      multiply<M, T>(rows, width, kChunk, x, task.x.row, 1, turned, scores);
      for (int64_t b = 0; b < task.blocks; ++b) {
        T* const state = sums + b * size;
        if (task.before) write_rows(state, width, columns, before(b, chunk), columns);
        fading.read(task.log_decay.data + first * task.log_decay.row + b, task.log_decay.row, rows);
        read_rows(task.z.data + first * task.z.row + b * columns, task.z.row, rows, columns, T(1),
                  values);
        for (int64_t i = 0; i < rows * kChunk; ++i) faded[i] = scores[i] * fading.pairs[i];
        multiply<M, T>(rows, width, columns, x, task.x.row, 1, state, out);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t c = 0; c < wide; ++c) out[i * wide + c] *= task.scale * fading.since[i];
        multiply<M, T>(rows, rows, columns, faded, kChunk, 1, values, out, true);
        write_rows(out, rows, columns, task.out.data + first * task.out.row + b * columns,
                   task.out.row);
        scale_rows(values, fading.until, rows, wide);
        for (int64_t i = 0; i < size; ++i) state[i] *= fading.whole(rows);
        multiply<M, T>(width, rows, columns, y, 1, task.y.row, values, state, true);
      }
    }
    for (int64_t b = 0; b < task.blocks; ++b)
      write_rows(sums + b * size, width, columns, task.last.data + b * columns, task.last.row);
  }

 private:
  T* before(int64_t block, int64_t chunk) const {
    return task.before + (block * faded_chunks(task.tokens) + chunk) * width * columns;
  }
};

template <class T>
struct Backward {
  const FadedBlocksBackward<T>& task;
  const FadedBlocks<T>& past = task.past;
  const int64_t width = past.width, columns = past.columns, wide = padded<T>(columns),
                deep = padded<T>(width), size = width * wide;

  struct Room {
    T *turned, *scores, *inside;  // y^T, s, and the sum of P over blocks
    T *values, *slopes, *out;     // z, d, and what products of a block make, [64, D]
    T *pairs, *faded;             // P, s * D
    T *state, *state_turned;      // S, and S^T, dS'^T or z^T
    T *read, *dx, *dy;            // [64, p]
  };

  template <class M>
  [[gnu::always_inline]] void on() const {
    TileRoom<T> room(past.blocks * size + 4 * kChunk * kChunk + kChunk * (4 * deep + 3 * wide) +
                     size + wide * std::max(deep, kChunk));
    T* const dsums = room.take(past.blocks * size);
    const Room of = {.turned = room.take(kChunk * deep),
                     .scores = room.take(kChunk * kChunk),
                     .inside = room.take(kChunk * kChunk),
                     .values = room.take(kChunk * wide),
                     .slopes = room.take(kChunk * wide),
                     .out = room.take(kChunk * wide),
                     .pairs = room.take(kChunk * kChunk),
                     .faded = room.take(kChunk * kChunk),
                     .state = room.take(size),
                     .state_turned = room.take(wide * std::max(deep, kChunk)),
                     .read = room.take(kChunk * deep),
                     .dx = room.take(kChunk * deep),
                     .dy = room.take(kChunk * deep)};
    for (int64_t b = 0; b < past.blocks; ++b)
      read_rows(task.dlast.data + b * columns, task.dlast.row, width, columns, T(1),
                dsums + b * size);
    for (int64_t chunk = faded_chunks(past.tokens) - 1; chunk >= 0; --chunk) {
      const int64_t first = chunk * kChunk, rows = std::min(kChunk, past.tokens - first);
      const T *const x = past.x.data + first * past.x.row, *const y =
                                                               past.y.data + first * past.y.row;
      transpose_rows<M, T>(y, past.y.row, rows, width, T(1), of.turned, kChunk);
      multiply<M, T>(rows, width, kChunk, x, past.x.row, 1, of.turned, of.scores);
      std::fill(of.inside, of.inside + kChunk * kChunk, T(0));
      std::fill(of.dx, of.dx + kChunk * deep, T(0));
      std::fill(of.dy, of.dy + kChunk * deep, T(0));
      for (int64_t b = 0; b < past.blocks; ++b)
        block<M>(b, chunk, rows, x, y, dsums + b * size, of);
      read_rows(y, past.y.row, rows, width, T(1), of.read);
      multiply<M, T>(rows, rows, width, of.inside, kChunk, 1, of.read, of.dx, true);
      read_rows(x, past.x.row, rows, width, T(1), of.read);
      multiply<M, T>(rows, rows, width, of.inside, 1, kChunk, of.read, of.dy, true);
      write_rows(of.dx, rows, width, task.dx.data + first * task.dx.row, task.dx.row);
      write_rows(of.dy, rows, width, task.dy.data + first * task.dy.row, task.dy.row);
    }
    for (int64_t b = 0; b < past.blocks; ++b)
      write_rows(dsums + b * size, width, columns, task.dfirst.data + b * columns, task.dfirst.row);
  }

 private:
  template <class M>
  [[gnu::always_inline]] void block(int64_t b, int64_t chunk, int64_t rows, const T* x, const T* y,
                                    T* dstate, const Room& of) const {
    const int64_t first = chunk * kChunk;
    Fading<T> fading;
    T reads[kChunk], writes[kChunk];  // of S by each token, and of S' by each
    fading.read(past.log_decay.data + first * past.log_decay.row + b, past.log_decay.row, rows);
    read_rows(past.z.data + first * past.z.row + b * columns, past.z.row, rows, columns, T(1),
              of.values);
    read_rows(task.dout.data + first * task.dout.row + b * columns, task.dout.row, rows, columns,
              past.scale, of.slopes);
    read_rows(past.before + (b * faded_chunks(past.tokens) + chunk) * width * columns, columns,
              width, columns, T(1), of.state);
    // P, and s * D.
    transpose_rows<M, T>(of.values, wide, rows, columns, T(1), of.state_turned, kChunk);
    multiply<M, T>(rows, columns, kChunk, of.slopes, wide, 1, of.state_turned, of.pairs);
    for (int64_t i = 0; i < rows * kChunk; ++i) {
      of.pairs[i] *= fading.pairs[i];
      of.faded[i] = of.scores[i] * fading.pairs[i];
      of.inside[i] += of.pairs[i];
    }
    // dz.
    multiply<M, T>(rows, width, columns, y, past.y.row, 1, dstate, of.out);
    scale_rows(of.out, fading.until, rows, wide);
    multiply<M, T>(rows, rows, columns, of.faded, 1, kChunk, of.slopes, of.out, true);
    write_rows(of.out, rows, columns, task.dz.data + first * task.dz.row + b * columns,
               task.dz.row);
    // What is written to S' and what of S is read, for dy and dx.
    const T passing = fading.whole(rows) * dot(dstate, of.state, size);
    scale_rows(of.values, fading.until, rows, wide);
    transpose_rows<M, T>(dstate, wide, width, columns, T(1), of.state_turned, deep);
    multiply<M, T>(rows, columns, width, of.values, wide, 1, of.state_turned, of.read);
    add_rows(y, past.y.row, rows, of.read, of.dy, writes);
    scale_rows(of.slopes, fading.since, rows, wide);
    transpose_rows<M, T>(of.state, wide, width, columns, T(1), of.state_turned, deep);
    multiply<M, T>(rows, columns, width, of.slopes, wide, 1, of.state_turned, of.read);
    add_rows(x, past.x.row, rows, of.read, of.dx, reads);
    for (int64_t i = 0; i < size; ++i) dstate[i] *= fading.whole(rows);
    multiply<M, T>(width, rows, columns, x, 1, past.x.row, of.slopes, dstate, true);
    decays(b, first, rows, passing, reads, writes, of);
  }

  // to += from, and the products with rows of x.
  [[gnu::always_inline]] void add_rows(const T* x, int64_t row, int64_t rows, const T* from, T* to,
                                       T* found) const {
    for (int64_t i = 0; i < rows; ++i) found[i] = dot(from + i * deep, x + i * row, width);
    for (int64_t i = 0; i < rows * deep; ++i) to[i] += from[i];
  }

  // dg_t = what passes S by + sum_{i >= t} reads_i + sum_{j < t} writes_j + sum_{j < t <= i} P s.
  [[gnu::always_inline]] void decays(int64_t b, int64_t first, int64_t rows, T passing,
                                     const T* reads, const T* writes, const Room& of) const {
    T read[kChunk], written[kChunk] = {};  // by i of tokens before it; of j by those behind it
    for (int64_t i = 0; i < rows; ++i) {
      T *const p = of.pairs + i * kChunk, *const s = of.scores + i * kChunk;
      p[i] = 0;
      read[i] = dot(p, s, kChunk);
      for (int64_t j = 0; j < kChunk; ++j) written[j] += p[j] * s[j];
    }
    T before[kChunk], sum = passing;
    for (int64_t t = 0; t < rows; ++t) {
      before[t] = sum;
      sum += writes[t];
    }
    T behind = 0;
    for (int64_t t = rows - 1; t >= 0; --t) {
      behind += reads[t] + read[t] - written[t];
      task.dlog_decay.data[(first + t) * task.dlog_decay.row + b] = before[t] + behind;
    }
  }
};

}  // namespace

template <class T>
void faded_blocks(const FadedBlocks<T>& task) noexcept {
  run_here(Forward<T>{task});
}
template <class T>
void faded_blocks_backward(const FadedBlocksBackward<T>& task) noexcept {
  run_here(Backward<T>{task});
}

template void faded_blocks(const FadedBlocks<float>& task) noexcept;
template void faded_blocks(const FadedBlocks<double>& task) noexcept;
template void faded_blocks_backward(const FadedBlocksBackward<float>& task) noexcept;
template void faded_blocks_backward(const FadedBlocksBackward<double>& task) noexcept;

}  // namespace longbow::kernels

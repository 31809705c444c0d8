// With P = (taps - 1) / 2, row i of a tile is a product with the filter shifted by i:
//   out_i = sum_l F_il x_(l - P),   F_il = f_(l - i),
// a matrix that is read out of the filter between zeros. The gradient of x is the same with the
// filter backwards, and that of the filter sums the diagonals of x g^T.
#include "longbow/kernels/token_filter.h"

#include <algorithm>
#include <vector>

#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kTokens = 64, kRows = 16;  // of a tile; with one matrix of the filter

// The filter with kRows zeros on either side.
template <class T>
std::vector<T> between_zeros(const T* filter, int64_t taps, bool backwards) {
  std::vector<T> all(static_cast<size_t>(taps + 2 * kRows), T(0));
  std::copy(filter, filter + taps, all.begin() + kRows);
  if (backwards) std::reverse(all.begin(), all.end());
  return all;
}

// out of a tile from its window, by the filter between zeros.
template <class M, class T>
[[gnu::always_inline]] inline void filter_tile(const T* window, const T* filter, int64_t taps,
                                               int64_t first, int64_t rows, int64_t width, T* room,
                                               const Rows<T>& out) {
  constexpr int64_t kTogether = M::kRows;  // fewer of them meet fewer zeros
  const int64_t wide = padded<T>(width);
  const bool whole = wide == width;  // nothing is written behind a row
  for (int64_t i = 0; i < rows; i += kTogether) {
    const int64_t count = std::min(kTogether, rows - i);
    T* const to = out.data + (first + i) * out.row;
    tile_product<M, T>({.rows = count,
                        .columns = width,
                        .depth = taps + count - 1,
                        .a = filter + kRows,
                        .a_row = -1,
                        .a_step = 1,
                        .b = window + i * wide,
                        .b_row = wide,
                        .out = whole ? to : room,
                        .out_row = whole ? out.row : wide});
    if (whole) continue;
    for (int64_t r = 0; r < count; ++r)
      std::copy(room + r * wide, room + r * wide + width, to + r * out.row);
  }
}

template <class T>
struct Forward {
  const TokenFilter<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t wide = padded<T>(task.width), most = kTokens + task.taps - 1;
    TileRoom<T> room((most + kRows) * wide);
    T *const window = room.take(most * wide), *const rows = room.take(kRows * wide);
    const auto filter = between_zeros(task.filter, task.taps, false);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, count = std::min(kTokens, task.tokens - first);
      gather_window(task.x, task.tokens, task.width, first - task.taps / 2, count + task.taps - 1,
                    window);
      filter_tile<M>(window, filter.data(), task.taps, first, count, task.width, rows, task.out);
    }
  }
};

template <class T>
struct Backward {
  const TokenFilterBackward<T>& task;
  int64_t begin, end;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const auto& past = task.past;
    const int64_t wide = padded<T>(past.width), most = kTokens + past.taps - 1;
    TileRoom<T> room((most + kRows + kTokens) * wide + (past.taps + kRows) * kRows);
    T *const window = room.take(most * wide), *const rows = room.take(kRows * wide),
             *const columns = room.take(wide * kTokens),
             *const pairs = room.take((past.taps + kRows) * kRows);
    const auto filter = between_zeros(past.filter, past.taps, true);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kTokens, count = std::min(kTokens, past.tokens - first),
                    start = first - past.taps / 2, depth = count + past.taps - 1;
      gather_window(task.dout, past.tokens, past.width, start, depth, window);
      filter_tile<M>(window, filter.data(), past.taps, first, count, past.width, rows, past.out);
      gather_window(past.x, past.tokens, past.width, start, depth, window);
      transpose_rows<M, T>(task.dout.data + first * task.dout.row, task.dout.row, count, past.width,
                           T(1), columns, kTokens);
      for (int64_t i = 0; i < count; i += kRows)
        add_diagonals<M>(window + i * wide, columns + i, std::min(kRows, count - i), pairs);
    }
  }

 private:
  // Of the products of `count` tokens with all tokens around them.
  template <class M>
  [[gnu::always_inline]] void add_diagonals(const T* window, const T* columns, int64_t count,
                                            T* pairs) const {
    const auto& past = task.past;
    tile_product<M, T>({.rows = count + past.taps - 1,
                        .columns = kRows,
                        .depth = past.width,
                        .a = window,
                        .a_row = padded<T>(past.width),
                        .a_step = 1,
                        .b = columns,
                        .b_row = kTokens,
                        .out = pairs,
                        .out_row = kRows});
    for (int64_t t = 0; t < past.taps; ++t) {
      T sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += pairs[(i + t) * kRows + i];
      task.dfilter[t] += sum;
    }
  }
};

}  // namespace

int64_t filter_tiles(int64_t tokens) noexcept {
  return (tokens + kTokens - 1) / kTokens;
}
template <class T>
void token_filter(const TokenFilter<T>& task, int64_t first, int64_t last) noexcept {
  run_here(Forward<T>{task, first, last});
}
template <class T>
void token_filter_backward(const TokenFilterBackward<T>& task, int64_t first,
                           int64_t last) noexcept {
  run_here(Backward<T>{task, first, last});
}

template void token_filter(const TokenFilter<float>& task, int64_t first, int64_t last) noexcept;
template void token_filter(const TokenFilter<double>& task, int64_t first, int64_t last) noexcept;
template void token_filter_backward(const TokenFilterBackward<float>& task, int64_t first,
                                    int64_t last) noexcept;
template void token_filter_backward(const TokenFilterBackward<double>& task, int64_t first,
                                    int64_t last) noexcept;

}  // namespace longbow::kernels

// The sequence is walked in chunks of 64 rows. Inside a chunk the product is dense and triangular;
// what came before enters through the p x q sum A. Three small matrix products a chunk, all
// operands in cache:
//   out = tril(x y^T) z + x A,   then   A += y^T z.
// Scores lie with a row for each y, so that y need not be transposed, but x.
#include "longbow/kernels/causal_product.h"

#include <algorithm>

#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kChunk = 64;

template <class T>
struct Task {
  const CausalProduct<T>& task;

  template <class M>
  [[gnu::always_inline]] void on() const {
    const int64_t p = task.p, wide = padded<T>(task.q);
    TileRoom<T> memory(p * wide + kChunk * (padded<T>(p) + kChunk + 2 * wide));
    const Room room = {.sum = memory.take(p * wide),
                       .columns = memory.take(padded<T>(p) * kChunk),
                       .scores = memory.take(kChunk * kChunk),
                       .values = memory.take(kChunk * wide),
                       .out = memory.take(kChunk * wide)};
    const int64_t chunks = (task.length + kChunk - 1) / kChunk;
    for (int64_t b = 0; b < task.batch; ++b) {
      std::fill(room.sum, room.sum + p * wide, T(0));
      for (int64_t c = 0; c < chunks; ++c) {
        const int64_t first = (task.reversed ? chunks - 1 - c : c) * kChunk;
        chunk<M>(b * task.length + first, std::min(kChunk, task.length - first), room);
      }
    }
  }

 private:
  struct Room {
    T *sum, *columns, *scores, *values, *out;  // A, x^T [p, 64], [64, 64], z and out [64, q]
  };

  template <class M>
  [[gnu::always_inline]] void chunk(int64_t first, int64_t rows, const Room& room) const {
    const int64_t p = task.p, q = task.q, wide = padded<T>(q);
    const T *const x = task.x + first * p, *const y = task.y + first * p;
    transpose_rows<M, T>(x, p, rows, p, T(1), room.columns, kChunk);
    for (int64_t i = 0; i < rows; ++i) {
      std::copy(task.z + (first + i) * q, task.z + (first + i + 1) * q, room.values + i * wide);
      std::fill(room.values + i * wide + q, room.values + (i + 1) * wide, T(0));
    }
    const TileProduct<T> scores = {.rows = rows,
                                   .columns = kChunk,
                                   .depth = p,
                                   .a = y,
                                   .a_row = p,
                                   .a_step = 1,
                                   .b = room.columns,
                                   .b_row = kChunk,
                                   .out = room.scores,
                                   .out_row = kChunk};
    tile_product<M, T>(scores);
    for (int64_t j = 0; j < rows; ++j) {  // token i reads j <= i, or j >= i
      T* const row = room.scores + j * kChunk;
      task.reversed ? std::fill(row + j + 1, row + rows, T(0)) : std::fill(row, row + j, T(0));
    }
    const TileProduct<T> inside = {.rows = rows,
                                   .columns = q,
                                   .depth = rows,
                                   .a = room.scores,
                                   .a_row = 1,
                                   .a_step = kChunk,
                                   .b = room.values,
                                   .b_row = wide,
                                   .out = room.out,
                                   .out_row = wide};
    auto before = inside, after = inside;
    before.depth = p;
    before.a = x;
    before.a_row = p;
    before.a_step = 1;
    before.b = room.sum;
    after.rows = p;
    after.a = y;
    after.a_step = p;
    after.out = room.sum;
    before.add = after.add = true;
    tile_product<M, T>(inside);
    tile_product<M, T>(before);
    tile_product<M, T>(after);
    for (int64_t i = 0; i < rows; ++i)
      std::copy(room.out + i * wide, room.out + i * wide + q, task.out + (first + i) * q);
  }
};

}  // namespace

void causal_product(const CausalProduct<float>& task) noexcept {
  run_here(Task<float>{task});
}
void causal_product(const CausalProduct<double>& task) noexcept {
  run_here(Task<double>{task});
}

}  // namespace longbow::kernels

// The sequence is walked in chunks of C rows. Inside a chunk the product is dense and triangular;
// what came before enters through the p x q sum A. Three small matrix products a chunk, all
// operands in cache:
//   out = tril(x y^T) z + x A,   then   A += y^T z.
#include "longbow/kernels/causal_product.h"

#include <algorithm>
#include <vector>

namespace longbow::kernels {
namespace {

constexpr int64_t kChunk = 32, kRows = 4, kColumns = 32;

// out[m, n] += a[m, k] b[k, n]. Tiles of 4 x 32 accumulators stay in registers while k runs.
template <class T>
[[gnu::always_inline]] inline void add_product(int64_t m, int64_t n, int64_t k, const T* a,
                                               int64_t a_row, int64_t a_step, const T* b,
                                               int64_t b_row, T* out, int64_t out_row) {
  for (int64_t i = 0; i < m; i += kRows) {
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t rows = std::min(kRows, m - i), columns = std::min(kColumns, n - j);
      if (rows == kRows && columns == kColumns) {
        T sum[kRows][kColumns] = {};
        for (int64_t l = 0; l < k; ++l)
          for (int64_t r = 0; r < kRows; ++r)
            for (int64_t c = 0; c < kColumns; ++c)
              sum[r][c] += a[(i + r) * a_row + l * a_step] * b[l * b_row + j + c];
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t c = 0; c < kColumns; ++c) out[(i + r) * out_row + j + c] += sum[r][c];
      } else {
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t l = 0; l < k; ++l)
            for (int64_t c = 0; c < columns; ++c)
              out[(i + r) * out_row + j + c] +=
                  a[(i + r) * a_row + l * a_step] * b[l * b_row + j + c];
      }
    }
  }
}

template <class T>
struct Scratch {
  std::vector<T> sum, y_columns, scores;
  Scratch(int64_t p, int64_t q) : sum(p * q), y_columns(p * kChunk), scores(kChunk * kChunk) {}
};

// One chunk of `rows` rows starting at `first`.
template <class T>
[[gnu::always_inline]] inline void chunk(const CausalProduct<T>& task, int64_t first, int64_t rows,
                                         Scratch<T>& scratch) {
  const int64_t p = task.p, q = task.q;
  const T *x = task.x + first * p, *y = task.y + first * p, *z = task.z + first * q;
  T* out = task.out + first * q;
  std::fill(scratch.scores.begin(), scratch.scores.end(), T(0));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < p; ++k) scratch.y_columns[k * kChunk + i] = y[i * p + k];
  add_product<T>(rows, rows, p, x, p, 1, scratch.y_columns.data(), kChunk, scratch.scores.data(),
                 kChunk);
  for (int64_t i = 0; i < rows; ++i) {
    T* row = scratch.scores.data() + i * kChunk;
    if (task.reversed)
      std::fill(row, row + i, T(0));
    else
      std::fill(row + i + 1, row + rows, T(0));
  }
  std::fill(out, out + rows * q, T(0));
  add_product<T>(rows, q, rows, scratch.scores.data(), kChunk, 1, z, q, out, q);
  add_product<T>(rows, q, p, x, p, 1, scratch.sum.data(), q, out, q);
  add_product<T>(p, q, rows, y, 1, p, z, q, scratch.sum.data(), q);
}

template <class T>
[[gnu::always_inline]] inline void run(const CausalProduct<T>& task) {
  Scratch<T> scratch(task.p, task.q);
  const int64_t chunks = (task.length + kChunk - 1) / kChunk;
  for (int64_t b = 0; b < task.batch; ++b) {
    CausalProduct<T> sequence = task;
    sequence.x += b * task.length * task.p;
    sequence.y += b * task.length * task.p;
    sequence.z += b * task.length * task.q;
    sequence.out += b * task.length * task.q;
    std::fill(scratch.sum.begin(), scratch.sum.end(), T(0));
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t first = (task.reversed ? chunks - 1 - c : c) * kChunk;
      chunk(sequence, first, std::min(kChunk, task.length - first), scratch);
    }
  }
}

LONGBOW_CLONES void run_float(const CausalProduct<float>& task) {
  run(task);
}
LONGBOW_CLONES void run_double(const CausalProduct<double>& task) {
  run(task);
}

}  // namespace

void causal_product(const CausalProduct<float>& task) noexcept {
  run_float(task);
}
void causal_product(const CausalProduct<double>& task) noexcept {
  run_double(task);
}

}  // namespace longbow::kernels

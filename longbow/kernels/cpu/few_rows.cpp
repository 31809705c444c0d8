// The matrix is read from memory once and as it lies: some of its rows at a time, while all rows of
// x pass by. What a row gives is the same whatever stands beside it.
#include "longbow/kernels/few_rows.h"

#include <algorithm>

#include "longbow/kernels/cpu/machine.h"

namespace longbow::kernels {
namespace {

struct Task {
  const FewRows& task;
  int64_t first, last;

  template <class M>
  [[gnu::always_inline]] void on() const {
    constexpr int64_t kColumns = 4;
    int64_t column = first;
    for (; column + kColumns <= last; column += kColumns) columns<M, kColumns>(column);
    for (; column < last; ++column) columns<M, 1>(column);
  }

 private:
  template <class M, int64_t kColumns>
  [[gnu::always_inline]] void columns(int64_t column) const {
    constexpr int64_t kRows = M::kBytes == 64 ? 4 : 2;  // as many sums as there are registers for
    int64_t row = 0;
    for (; row + kRows <= task.rows; row += kRows) block<M, kColumns, kRows>(column, row);
    for (; row < task.rows; ++row) block<M, kColumns, 1>(column, row);
  }

  template <class M, int64_t kColumns, int64_t kRows>
  [[gnu::always_inline]] void block(int64_t column, int64_t row) const {
    constexpr int64_t kLane = kLanes<M, float>;
    using V = Vector<M, float>;
    const float *const w = task.w.data + column * task.w.row, *const x =
                                                                  task.x.data + row * task.x.row;
    V sums[kColumns][kRows] = {}, weights, values[kRows];
    int64_t l = 0;
    for (; l + kLane <= task.depth; l += kLane) {
      for (int64_t r = 0; r < kRows; ++r) load(values[r], x + r * task.x.row + l);
      for (int64_t c = 0; c < kColumns; ++c) {
        // The next columns, of which none could be begun in time otherwise: their rows are short.
        if (row == 0) __builtin_prefetch(w + (kColumns + c) * task.w.row + l);
        load(weights, w + c * task.w.row + l);
        for (int64_t r = 0; r < kRows; ++r) sums[c][r] += weights * values[r];
      }
    }
    for (int64_t c = 0; c < kColumns; ++c)
      for (int64_t r = 0; r < kRows; ++r) {
        float parts[kLane], sum = task.bias ? task.bias[column + c] : 0;
        store(sums[c][r], parts);
        for (const float part : parts) sum += part;
        for (int64_t rest = l; rest < task.depth; ++rest)
          sum += w[c * task.w.row + rest] * x[r * task.x.row + rest];
        task.y.data[(row + r) * task.y.row + column + c] = sum;
      }
  }
};

}  // namespace

void few_rows(const FewRows& task, int64_t first, int64_t last) noexcept {
  run_here(Task{task, first, last});
}

}  // namespace longbow::kernels

// A panel of the right factor stays in the first cache while rows of the left one pass by; what
// they add to stays in registers. Rows of the left factor are read where they stand: to copy them
// first, as libraries for large matrices do, would cost a tenth of the time here.
#include "longbow/kernels/rows_product.h"

#include <algorithm>

#include "longbow/kernels/cpu/tile_product.h"
#include "longbow/kernels/cpu/tile_room.h"
#include "longbow/kernels/cpu/transpose.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kDepth = 128, kBlock = 192;

int64_t width_of(int64_t panel, int64_t columns) {
  return std::min(kPanel, columns - panel * kPanel);
}

struct PackTask {
  const PackedPanels& task;
  int64_t first, last;

  template <class M>
  [[gnu::always_inline]] void on() const {
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t columns = width_of(panel, task.columns);
      float* const to = task.panels + panel * panel_rows(task.depth) * kPanel;
      if (task.transposed)
        transpose_rows<M, float>(task.b.data + panel * kPanel * task.b.row, task.b.row, columns,
                                 task.depth, 1, to, kPanel);
      else
        for (int64_t l = 0; l < task.depth; ++l) {
          const float* const row = task.b.data + l * task.b.row + panel * kPanel;
          std::copy(row, row + columns, to + l * kPanel);
        }
    }
  }
};

struct RowsTask {
  const RowsProduct& task;
  int64_t first, last;

  template <class M>
  [[gnu::always_inline]] void on() const {
    for (int64_t row = first; row < last; row += kBlock)
      for (int64_t panel = 0; panel < panels_of(task.columns); ++panel)
        block<M>(row, std::min(kBlock, last - row), panel);
  }

 private:
  template <class M>
  [[gnu::always_inline]] void block(int64_t row, int64_t rows, int64_t panel) const {
    const int64_t columns = width_of(panel, task.columns);
    float* const y = task.y.data + row * task.y.row + panel * kPanel;
    if (task.bias)
      for (int64_t i = 0; i < rows; ++i)
        std::copy(task.bias + panel * kPanel, task.bias + panel * kPanel + columns,
                  y + i * task.y.row);
    const float* b = task.panels + panel * panel_rows(task.depth) * kPanel;
    bool add = task.bias != nullptr;
    for (const auto& x : task.x)
      for (int64_t l = 0; l < x.width; l += kDepth, add = true) {
        const int64_t depth = std::min(kDepth, x.width - l);
        tile_product<M, float>({.rows = rows,
                                .columns = columns,
                                .depth = depth,
                                .a = x.rows.data + row * x.rows.row + l,
                                .a_row = x.rows.row,
                                .a_step = 1,
                                .b = b,
                                .b_row = kPanel,
                                .out = y,
                                .out_row = task.y.row,
                                .add = add});
        b += depth * kPanel;
      }
  }
};

struct ColumnsTask {
  const ColumnsProduct& task;
  int64_t first, last;

  // Some rows at a time b is brought into panels, and of a as many columns as the product has rows
  // are put beside each other.
  template <class M>
  [[gnu::always_inline]] void on() const {
    constexpr int64_t kGroup = M::kRows;
    const int64_t panels = panels_of(task.columns);
    TileRoom<float> room(kTogether * (kGroup + panels * kPanel) + kHalfPanel);
    float *const left = room.take(kGroup * kTogether), *const right =
                                                           room.take(panels * kPanel * kTogether);
    for (int64_t l = 0; l < task.rows; l += kTogether) {
      const int64_t rows = std::min(kTogether, task.rows - l);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t p = 0; p < panels; ++p) {
          const float* const b = task.b.data + (l + i) * task.b.row + p * kPanel;
          std::copy(b, b + width_of(p, task.columns), right + (p * kTogether + i) * kPanel);
        }
      int64_t begin = 0;
      for (const auto& a : task.a) {
        const int64_t end = std::min(last, begin + a.width);
        for (int64_t row = std::max(first, begin); row < end; row += kGroup) {
          const int64_t count = std::min(kGroup, end - row);
          gather<kGroup>(a.rows.data + l * a.rows.row + row - begin, a.rows.row, rows, count, left,
                         task.sums + row, l > 0);
          for (int64_t p = 0; p < panels; ++p)
            tile_product<M, float>({.rows = count,
                                    .columns = width_of(p, task.columns),
                                    .depth = rows,
                                    .a = left,
                                    .a_row = 1,
                                    .a_step = kGroup,
                                    .b = right + p * kTogether * kPanel,
                                    .b_row = kPanel,
                                    .out = task.out.data + row * task.out.row + p * kPanel,
                                    .out_row = task.out.row,
                                    .add = l > 0});
        }
        begin += a.width;
      }
    }
  }

 private:
  static constexpr int64_t kTogether = 256;

  // `count` columns of a, [rows, kGroup], and what they add to the sums.
  template <int64_t kGroup>
  [[gnu::always_inline]] static void gather(const float* a, int64_t a_row, int64_t rows,
                                            int64_t count, float* left, float* all, bool add) {
    float sums[kGroup] = {};
    if (count == kGroup)  // a constant, so that it is a vector
      for (int64_t i = 0; i < rows; ++i, a += a_row)
        for (int64_t r = 0; r < kGroup; ++r) sums[r] += left[i * kGroup + r] = a[r];
    else
      for (int64_t i = 0; i < rows; ++i, a += a_row)
        for (int64_t r = 0; r < count; ++r) sums[r] += left[i * kGroup + r] = a[r];
    for (int64_t r = 0; r < count; ++r) all[r] = (add ? all[r] : 0) + sums[r];
  }
};

}  // namespace

void pack_panels(const PackedPanels& task, int64_t first, int64_t last) noexcept {
  run_here(PackTask{task, first, last});
}
void rows_product(const RowsProduct& task, int64_t first, int64_t last) noexcept {
  run_here(RowsTask{task, first, last});
}

void columns_product(const ColumnsProduct& task, int64_t first, int64_t last) noexcept {
  run_here(ColumnsTask{task, first, last});
}

}  // namespace longbow::kernels

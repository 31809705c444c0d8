// A panel of the right factor stays in the first cache while rows of the left one pass by; what
// they add to stays in registers. Rows of the left factor are read where they stand: to copy them
// first, as libraries for large matrices do, would cost a tenth of the time here.
#include "longbow/kernels/rows_product.h"

#include <algorithm>

#include "longbow/kernels/cpu/tile_product.h"
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
    for (int64_t l = 0; l < task.depth; l += kDepth)
      tile_product<M, float>({.rows = rows,
                              .columns = columns,
                              .depth = std::min(kDepth, task.depth - l),
                              .a = task.x.data + row * task.x.row + l,
                              .a_row = task.x.row,
                              .a_step = 1,
                              .b = task.panels + (panel * panel_rows(task.depth) + l) * kPanel,
                              .b_row = kPanel,
                              .out = y,
                              .out_row = task.y.row,
                              .add = l > 0 || task.bias != nullptr});
  }
};

}  // namespace

void pack_panels(const PackedPanels& task, int64_t first, int64_t last) noexcept {
  run_here(PackTask{task, first, last});
}
void rows_product(const RowsProduct& task, int64_t first, int64_t last) noexcept {
  run_here(RowsTask{task, first, last});
}

}  // namespace longbow::kernels

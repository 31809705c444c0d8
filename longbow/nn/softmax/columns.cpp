#include "longbow/nn/softmax/columns.h"

#include <ATen/ATen.h>

#include "longbow/ops/order_softmax.h"

namespace longbow {
namespace {

int64_t rows_of(const Tensor& heads, int64_t columns) {
  return (heads.size(2) + columns - 1) / columns;
}

}  // namespace

Orders column_orders(const Tensor& heads, int64_t columns) {
  const int64_t rows = rows_of(heads, columns), all = rows * columns;
  const auto place = at::arange(all, heads.options().dtype(at::kLong));
  const auto of_all = [&](const Tensor& index) {
    return index.expand({heads.size(0), heads.size(1), 1, all}).contiguous();
  };
  return {of_all(place.remainder(rows) * columns + place.floor_divide(rows)),
          of_all(place.remainder(columns) * rows + place.floor_divide(columns))};
}

BlockPairs column_pairs(const Tensor& heads, int64_t columns) {
  const int64_t rows = rows_of(heads, columns);
  return near_blocks(rows * columns, rows, 0, 0, heads.device());
}

PartialSoftmax read_columns(const Heads& heads, int64_t columns, const Visibility& visibility,
                            double scale) {
  auto orders = column_orders(heads.q, columns);
  orders.inverse = orders.inverse.narrow(3, 0, heads.q.size(2)).contiguous();
  const auto read = order_softmax(heads.q, heads.k, heads.v, orders,
                                  {.pairs = column_pairs(heads.q, columns),
                                   .visibility = visibility,
                                   .dropped = {},
                                   .scale = scale},
                                  false);
  return {read.out, read.log_sum};
}

}  // namespace longbow

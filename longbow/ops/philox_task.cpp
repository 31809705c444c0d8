#include "longbow/ops/philox_task.h"

#include <ATen/ATen.h>

#include "longbow/ops/element.h"

namespace longbow {

using at::Tensor;

void check_key(const Tensor& key, const char* who) {
  TORCH_CHECK(key.scalar_type() == at::kLong && key.numel() == 2 && key.is_contiguous(), who,
              ": key is ", key.sizes(), " ", key.scalar_type(), ", but needs [2] int64");
}

Tensor empty_draw(const Tensor& key, at::IntArrayRef shape) {
  check_key(key, "philox_uniform");
  return at::empty(shape, key.options().dtype(at::kFloat));
}

kernels::PhiloxWindow window_task(const Tensor& key, int64_t site, int64_t rows, int64_t columns,
                                  int64_t row, int64_t column, const Tensor& out) {
  check_key(key, "philox_window");
  TORCH_CHECK(out.dim() == 3 && out.scalar_type() == at::kFloat && out.is_contiguous() &&
                  out.device() == key.device(),
              "philox_window: out is ", out.sizes(), " ", out.scalar_type(),
              ", but needs [G, R, C] float32 beside the key");
  TORCH_CHECK(
      row >= 0 && row + out.size(1) <= rows && column >= 0 && column + out.size(2) <= columns,
      "philox_window: ", out.sizes(), " from row ", row, " and column ", column, " leaves the ",
      rows, " rows and ", columns, " columns");
  return {.key = key.const_data_ptr<int64_t>(),
          .site = static_cast<uint64_t>(site),
          .out = out.mutable_data_ptr<float>(),
          .first = row * columns + column,
          .slab = rows * columns,
          .row = columns,
          .slabs = out.size(0),
          .rows = out.size(1),
          .columns = out.size(2)};
}

kernels::Dropout dropout_task(const Tensor& x, const Tensor& y, const Tensor& key, int64_t site,
                              double rate) {
  check_key(key, "philox_dropout");
  TORCH_CHECK(key.device() == x.device(), "philox_dropout: key is on ", key.device(),
              ", but x is on ", x.device());
  return {.type = element_of(x),
          .key = key.const_data_ptr<int64_t>(),
          .site = static_cast<uint64_t>(site),
          .x = x.const_data_ptr(),
          .y = y.mutable_data_ptr(),
          .first = 0,
          .count = x.numel(),
          .rate = rate};
}

}  // namespace longbow

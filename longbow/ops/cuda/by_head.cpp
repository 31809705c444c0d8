#include "longbow/ops/cuda/by_head.h"

#include <ATen/ATen.h>

#include "longbow/ops/cuda/rows.h"

namespace longbow {

using at::Tensor;

Tensor readable_by_head(const Tensor& x) {
  const int64_t pack = 16 / x.element_size();
  bool readable = x.stride(3) == 1 && is_aligned(x);
  for (int64_t i = 0; i < 3; ++i) readable = readable && x.stride(i) % pack == 0;
  return readable ? x : dense_rows(x);
}

Tensor empty_by_head(const Tensor& x, int64_t width) {
  return at::empty({x.size(0), x.size(2), x.size(1), width}, x.options()).transpose(1, 2);
}

kernels::ByHead by_head(const Tensor& x) {
  return {const_cast<void*>(x.const_data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}

kernels::ByHead walked_by_head(const Tensor& x, bool reversed) {
  auto rows = by_head(x);
  if (!reversed) return rows;
  rows.data = static_cast<char*>(rows.data) + (x.size(2) - 1) * rows.token * x.element_size();
  rows.token = -rows.token;
  return rows;
}

}  // namespace longbow

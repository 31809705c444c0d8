#include "longbow/ops/cuda/rows.h"

#include <ATen/ATen.h>

namespace longbow {

using at::Tensor;

bool has_row_kernel(const Tensor& x) {
  return x.numel() > 0 && at::isFloatingType(x.scalar_type()) &&
         kernels::rows_fit(element_of(x), x.size(-1));
}

bool is_aligned(const Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

Tensor dense_rows(const Tensor& x) {
  const auto rows = x.contiguous();
  return is_aligned(rows) ? rows : rows.clone();
}

}  // namespace longbow

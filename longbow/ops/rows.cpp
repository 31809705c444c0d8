#include "longbow/ops/rows.h"

#include <ATen/ATen.h>

namespace longbow {

using at::Tensor;

bool has_row_type(const Tensor& x) {
  const auto type = x.scalar_type();
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

kernels::RowType row_type(const Tensor& x) {
  if (x.scalar_type() == at::kFloat) return kernels::RowType::float32;
  return x.scalar_type() == at::kBFloat16 ? kernels::RowType::bfloat16 : kernels::RowType::float16;
}

bool is_aligned(const Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

Tensor dense_rows(const Tensor& x) {
  const auto rows = x.contiguous();
  return is_aligned(rows) ? rows : rows.clone();
}

}  // namespace longbow

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

Tensor token_rows(const Tensor& x) {
  const int64_t width = x.size(-1);
  bool regular = x.dim() >= 2 && x.stride(-1) == 1 && x.stride(-2) % 8 == 0 && is_aligned(x);
  // Strides of dimensions of size 1 say nothing.
  int64_t next = regular ? x.stride(-2) * x.size(-2) : 0;
  for (int64_t d = x.dim() - 3; regular && d >= 0; --d) {
    if (x.size(d) == 1) continue;
    regular = x.stride(d) == next;
    next *= x.size(d);
  }
  return regular ? x.as_strided({x.numel() / width, width}, {x.stride(-2), 1})
                 : dense_rows(x).view({-1, width});
}

Tensor readable_tokens(const Tensor& x) {
  const bool whole = x.stride(2) == 1 && x.stride(1) % 8 == 0 && x.stride(0) % 8 == 0;
  return whole && is_aligned(x) ? x : dense_rows(x);
}

kernels::ChannelRows channel_rows(const Tensor& x) {
  return {const_cast<void*>(x.const_data_ptr()), x.stride(0), x.stride(1)};
}

}  // namespace longbow

#include "longbow/ops/head_rows.h"

#include <ATen/ATen.h>

namespace longbow {

using at::Tensor;

Tensor with_rows(const Tensor& x) {
  const auto whole = [&](int64_t d) { return x.size(d) == 1 || x.stride(d) % 8 == 0; };
  const bool fits = x.stride(3) == 1 && whole(0) && whole(1) && whole(2) &&
                    reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
  return fits ? x : x.clone(at::MemoryFormat::Contiguous);
}

Tensor empty_rows(const Tensor& like, int64_t width) {
  return at::empty({like.size(0), like.size(2), like.size(1), width}, like.options())
      .transpose(1, 2);
}

BesideRows empty_beside(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.sizes() != k.sizes() || q.sizes() != v.sizes())
    return {empty_rows(q, q.size(3)), empty_rows(k, k.size(3)), empty_rows(v, v.size(3))};
  const auto all = at::empty({q.size(0), q.size(2), 3, q.size(1), q.size(3)}, q.options())
                       .transpose(1, 3);  // [B, H, 3, N, D]
  return {all.select(2, 0), all.select(2, 1), all.select(2, 2)};
}

kernels::HeadRows rows_of(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}
kernels::HeadResults results_of(const Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace longbow

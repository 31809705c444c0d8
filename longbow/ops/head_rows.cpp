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
  const auto fits = [&](const Tensor& x) {
    return x.sizes().slice(0, 3) == q.sizes().slice(0, 3) && x.size(3) % 8 == 0;
  };
  if (!fits(q) || !fits(k) || !fits(v))
    return {empty_rows(q, q.size(3)), empty_rows(k, k.size(3)), empty_rows(v, v.size(3))};
  const int64_t h = q.size(1);
  const auto all =
      at::empty({q.size(0), q.size(2), h * (q.size(3) + k.size(3) + v.size(3))}, q.options());
  int64_t first = 0;
  const auto next = [&](const Tensor& x) {
    const auto part = all.narrow(2, first, h * x.size(3));
    first += part.size(2);
    return part.unflatten(2, {h, x.size(3)}).transpose(1, 2);
  };
  const auto dq = next(q), dk = next(k), dv = next(v);
  return {dq, dk, dv};
}

BesideRows empty_as(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (k.is_alias_of(q) && v.is_alias_of(q)) return empty_beside(q, k, v);
  return {empty_rows(q, q.size(3)), empty_rows(k, k.size(3)), empty_rows(v, v.size(3))};
}

kernels::HeadRows rows_of(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}
kernels::HeadResults results_of(const Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

}  // namespace longbow

#include "longbow/ops/bucket_orders.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Two by_aten(const Tensor& bucket, int64_t buckets) {
  const auto found = bucket_orders_formula(bucket, buckets);
  return {found.order, found.inverse};
}
Two on_meta(const Tensor& bucket, int64_t) {
  return {at::empty_like(bucket), at::empty_like(bucket)};
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("bucket_orders(Tensor bucket, int buckets) -> (Tensor order, Tensor inverse)");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("bucket_orders", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("bucket_orders", on_meta);
}

}  // namespace

Orders bucket_orders(const Tensor& bucket, int64_t buckets) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::bucket_orders", "")
                             .typed<decltype(by_aten)>();
  TORCH_CHECK(bucket.dim() > 0 && bucket.scalar_type() == at::kLong && buckets > 0,
              "bucket_orders: bucket is ", bucket.scalar_type(), " ", bucket.sizes(), " of ",
              buckets);
  const auto [order, inverse] = op.call(bucket, buckets);
  return {order, inverse};
}

// Short numbers are sorted sooner.
Orders bucket_orders_formula(const Tensor& bucket, int64_t buckets) {
  const int64_t n = bucket.size(-1);
  const bool fits = (buckets + 1) * n <= std::numeric_limits<int32_t>::max();
  const auto place = at::arange(n, bucket.options());
  const auto keys = bucket * n + place;
  const auto order = at::argsort(fits ? keys.to(at::kInt) : keys, /*stable=*/true, /*dim=*/-1,
                                 /*descending=*/false);
  return {order, at::empty_like(order).scatter_(-1, order, place.expand_as(order))};
}

}  // namespace longbow

#include "longbow/ops/turned_buckets.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace longbow {
namespace {

using at::Tensor;

Tensor on_meta(const Tensor& y, at::IntArrayRef) {
  return at::empty(y.sizes().slice(0, static_cast<size_t>(y.dim() - 1)),
                   y.options().dtype(at::kLong));
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def("turned_buckets(Tensor y, int[] factors) -> Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("turned_buckets", turned_buckets_formula);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("turned_buckets", on_meta);
}

}  // namespace

Tensor turned_buckets(const Tensor& y, at::IntArrayRef factors) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::turned_buckets", "")
                             .typed<decltype(turned_buckets_formula)>();
  int64_t columns = 0;
  for (const int64_t factor : factors) columns += factor / 2;
  TORCH_CHECK(y.dim() > 0 && y.size(-1) == columns, "turned_buckets: y is ", y.sizes(),
              " for factors of ", factors);
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(y.detach(), factors);
}

Tensor turned_buckets_formula(const Tensor& y, at::IntArrayRef factors) {
  auto bucket = at::zeros({}, y.options().dtype(at::kLong));
  int64_t column = 0, all = 1;
  for (const int64_t factor : factors) {
    const auto part = y.narrow(-1, column, factor / 2);
    bucket = bucket + at::cat({part, -part}, -1).argmax(-1) * all;
    column += factor / 2;
    all *= factor;
  }
  return bucket;
}

}  // namespace longbow

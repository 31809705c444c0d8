#include "longbow/ops/hamming_clusters.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

Tensor by_aten(const Tensor& q, const Tensor& planes, const Maybe& keep, int64_t clusters,
               int64_t iterations) {
  return hamming_clusters_formula(q, planes, keep.value_or(Tensor()), clusters, iterations);
}
Tensor on_meta(const Tensor& q, const Tensor&, const Maybe&, int64_t, int64_t) {
  return at::empty(q.sizes().slice(0, 3), q.options().dtype(at::kLong));
}

TORCH_LIBRARY_FRAGMENT(longbow, m) {
  m.def(
      "hamming_clusters(Tensor q, Tensor planes, Tensor? keep, int clusters, int iterations) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(longbow, CPU, m) {
  m.impl("hamming_clusters", by_aten);
}
TORCH_LIBRARY_IMPL(longbow, Meta, m) {
  m.impl("hamming_clusters", on_meta);
}

// [B, H, N, bits], -1 or 1.
Tensor codes_of(const Tensor& q, const Tensor& planes) {
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto wide = planes.to(type);
  const int64_t d = q.size(3);
  const auto products = q.to(type).matmul(wide.narrow(1, 0, d).t()) - wide.select(1, d);
  return (products > 0).to(type) * 2 - 1;
}

// Products of codes are bits - 2 distance, whole numbers two apart: less than 1 decides a tie.
Tensor nearest(const Tensor& codes, const Tensor& centres) {
  const int64_t clusters = centres.size(2);
  const auto later = at::arange(clusters, codes.options()) / static_cast<double>(clusters);
  return (codes.matmul(centres.transpose(-2, -1)) - later).argmax(-1);
}

Tensor spread_rows(const Tensor& codes, const Tensor& keep, int64_t clusters) {
  const auto index = codes.options().dtype(at::kLong);
  const auto rows = keep.defined() ? keep.sum(1, true) : at::full({1, 1}, codes.size(2), index);
  const auto middle = 2 * at::arange(clusters, index) + 1;
  const auto place = (middle * rows).floor_divide(2 * clusters);  // [B or 1, clusters]
  return codes.gather(2, place.view({-1, 1, clusters, 1})
                             .expand({codes.size(0), codes.size(1), clusters, codes.size(3)}));
}

}  // namespace

Tensor memberships(const Tensor& cluster, int64_t clusters, at::ScalarType type) {
  return (cluster.unsqueeze(-1) == at::arange(clusters, cluster.options())).to(type);
}

Tensor hamming_clusters(const Tensor& q, const Tensor& planes, const Tensor& keep, int64_t clusters,
                        int64_t iterations) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("longbow::hamming_clusters", "")
                             .typed<decltype(by_aten)>();
  TORCH_CHECK(q.dim() == 4 && planes.dim() == 2 && planes.size(1) == q.size(3) + 1,
              "hamming_clusters: q is ", q.sizes(), ", planes ", planes.sizes());
  TORCH_CHECK(!keep.defined() || (keep.dim() == 2 && keep.scalar_type() == at::kBool &&
                                  keep.size(0) == q.size(0) && keep.size(1) == q.size(2)),
              "hamming_clusters: keep is ", keep.sizes(), ", but q is ", q.sizes());
  TORCH_CHECK(clusters > 0 && iterations >= 0, "hamming_clusters: ", clusters, " clusters, ",
              iterations, " iterations");
  const at::NoGradGuard constant;
  return op.call(q, planes, keep.defined() ? Maybe(keep) : std::nullopt, clusters, iterations);
}

Tensor hamming_clusters_formula(const Tensor& q, const Tensor& planes, const Tensor& keep,
                                int64_t clusters, int64_t iterations) {
  const auto codes = codes_of(q, planes);
  const auto assigned = [&](const Tensor& centres) {
    const auto z = nearest(codes, centres);
    return keep.defined() ? z.masked_fill(keep.logical_not().unsqueeze(1), clusters) : z;
  };
  auto centres = spread_rows(codes, keep, clusters);
  for (int64_t i = 0; i < iterations; ++i) {
    const auto members = memberships(assigned(centres), clusters, codes.scalar_type());
    const auto ones = members.transpose(-2, -1).matmul(codes);  // more ones than zeros: above 0
    const auto moved = (ones > 0).to(codes.scalar_type()) * 2 - 1;
    centres = at::where((members.sum(2) > 0).unsqueeze(-1), moved, centres);
  }
  return assigned(centres);
}

}  // namespace longbow

#include "longbow/attention/clustered/hamming_clusters.h"

#include <ATen/ATen.h>

namespace longbow {
namespace {

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

Tensor hamming_clusters(const Tensor& codes, const Tensor& keep, int64_t clusters,
                        int64_t iterations) {
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

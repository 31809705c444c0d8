#include "longbow/ops/hamming_clusters.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "longbow/kernels/hamming_clusters.h"
#include "longbow/kernels/head_span.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

bool fits(const Tensor& q, const Tensor& planes, int64_t clusters) {
  using kernels::HammingClusters;
  return (q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) && q.numel() > 0 &&
         q.size(2) <= HammingClusters::most_rows(planes.size(0)) && q.size(3) % 8 == 0 &&
         q.size(3) <= HammingClusters::kMostWidth && planes.size(0) > 0 &&
         planes.size(0) <= HammingClusters::kMostBits && clusters <= HammingClusters::kMostClusters;
}

Tensor on_cuda(const Tensor& given_q, const Tensor& given_planes, const Maybe& given_keep,
               int64_t clusters, int64_t iterations) {
  if (!fits(given_q, given_planes, clusters))
    return hamming_clusters_formula(given_q, given_planes, given_keep.value_or(Tensor()), clusters,
                                    iterations);
  const c10::cuda::CUDAGuard guard(given_q.device());
  const auto q = with_rows(given_q), planes = given_planes.to(at::kFloat).contiguous(),
             keep = given_keep ? given_keep->contiguous() : Tensor(),
             codes = at::empty(q.sizes().slice(0, 3), q.options().dtype(at::kLong)),
             cluster = at::empty_like(codes);
  kernels::hamming_clusters_cuda(
      {.type = element_of(q),
       .batch = q.size(0),
       .heads = q.size(1),
       .rows = q.size(2),
       .width = q.size(3),
       .bits = static_cast<int>(planes.size(0)),
       .clusters = static_cast<int>(clusters),
       .iterations = static_cast<int>(iterations),
       .q = rows_of(q),
       .planes = planes.const_data_ptr<float>(),
       .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
       .span = kernels::head_span(q.size(0) * q.size(1), q.size(2)),
       .codes = reinterpret_cast<uint64_t*>(codes.mutable_data_ptr<int64_t>()),
       .cluster = cluster.mutable_data_ptr<int64_t>()},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return cluster;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("hamming_clusters", on_cuda);
}

}  // namespace
}  // namespace longbow

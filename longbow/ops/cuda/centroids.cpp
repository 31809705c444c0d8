#include "longbow/ops/centroids.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/centroids.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Centroids;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& x, int64_t clusters) {
  constexpr int64_t kMostHeads = 65535;  // of all sequences
  const auto type = x.scalar_type();
  const int64_t width = x.size(3);
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && width >= 8 &&
         width <= 256 && (width & (width - 1)) == 0 && clusters <= Centroids::kMostClusters &&
         x.size(0) * x.size(1) <= kMostHeads;
}

Centroids task_of(const Tensor& x, int64_t clusters, const float* centroids, double least) {
  return {.type = element_of(x),
          .batch = x.size(0),
          .heads = x.size(1),
          .tokens = x.size(2),
          .width = x.size(3),
          .clusters = clusters,
          .least = least,
          .x = rows_of(x),
          .centroids = centroids};
}
void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

Three forward(const Tensor& given, const Tensor& given_centroids, double least) {
  const int64_t clusters = given_centroids.size(1);
  if (!fits(given, clusters)) {
    const auto found = centroid_cosines_formula(given, given_centroids, least);
    return {found.cosines, found.inverse, found.nearest};
  }
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), centroids = given_centroids.to(at::kFloat).contiguous();
  const auto rows = x.sizes().slice(0, 3);
  const auto cosines = at::empty({x.size(0), x.size(1), x.size(2), clusters}, centroids.options()),
             inverse = at::empty(rows, centroids.options()),
             nearest = at::empty(rows, centroids.options().dtype(at::kLong));
  kernels::centroid_cosines_cuda(
      {.past = task_of(x, clusters, centroids.const_data_ptr<float>(), least),
       .cosines = cosines.mutable_data_ptr<float>(),
       .inverse = inverse.mutable_data_ptr<float>(),
       .nearest = nearest.mutable_data_ptr<int64_t>()},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {cosines, inverse, nearest};
}

Tensor backward(const Tensor& given_dcosines, const Tensor& given, const Tensor& given_centroids,
                const Tensor& cosines, const Tensor& inverse, double least) {
  const int64_t clusters = given_centroids.size(1);
  if (!fits(given, clusters))
    return centroid_cosines_formula_backward(given_dcosines, given, given_centroids, cosines,
                                             inverse, least);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), centroids = given_centroids.to(at::kFloat).contiguous(),
             dcosines = given_dcosines.contiguous(), dx = empty_rows(x, x.size(3));
  kernels::centroid_cosines_backward_cuda(
      {.past = task_of(x, clusters, centroids.const_data_ptr<float>(), least),
       .cosines = cosines.const_data_ptr<float>(),
       .inverse = inverse.const_data_ptr<float>(),
       .dcosines = dcosines.const_data_ptr<float>(),
       .dx = results_of(dx)},
      stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dx;
}

Tensor sums(const Tensor& given, const Tensor& given_inverse, const Tensor& given_nearest,
            int64_t clusters) {
  if (!fits(given, clusters))
    return centroid_sums_formula(given, given_inverse, given_nearest, clusters);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), inverse = given_inverse.contiguous(),
             nearest = given_nearest.contiguous();
  const int64_t pieces = (x.size(2) + Centroids::kPiece - 1) / Centroids::kPiece;
  const auto parts =
      at::empty({x.size(0) * pieces, x.size(1), clusters, x.size(3)}, inverse.options());
  kernels::centroid_sums_cuda({.past = task_of(x, clusters, nullptr, 0),
                               .inverse = inverse.const_data_ptr<float>(),
                               .nearest = nearest.const_data_ptr<int64_t>(),
                               .sums = parts.mutable_data_ptr<float>()},
                              stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return parts.sum(0);
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("centroid_cosines", forward);
  m.impl("centroid_cosines_backward", backward);
  m.impl("centroid_sums", sums);
}

}  // namespace
}  // namespace longbow

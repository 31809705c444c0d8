#include "longbow/ops/bucket_orders.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "longbow/kernels/bucket_orders.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Two on_cuda(const Tensor& given, int64_t buckets) {
  const int64_t n = given.size(-1);
  if (given.numel() == 0 || buckets > kernels::BucketOrders::kMostBuckets ||
      n > std::numeric_limits<int32_t>::max()) {
    const auto found = bucket_orders_formula(given, buckets);
    return {found.order, found.inverse};
  }
  const c10::cuda::CUDAGuard guard(given.device());
  const auto bucket = given.contiguous(), order = at::empty(bucket.sizes(), bucket.options()),
             inverse = at::empty(bucket.sizes(), bucket.options());
  kernels::bucket_orders_cuda({.bucket = bucket.const_data_ptr<int64_t>(),
                               .order = order.mutable_data_ptr<int64_t>(),
                               .inverse = inverse.mutable_data_ptr<int64_t>(),
                               .ends = nullptr,
                               .lines = bucket.numel() / n,
                               .tokens = n,
                               .buckets = static_cast<int>(buckets),
                               .least = 0},
                              c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {order, inverse};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("bucket_orders", on_cuda);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/turned_buckets.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/turned_buckets.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor on_cuda(const Tensor& given, at::IntArrayRef factors) {
  kernels::TurnedBuckets task = {};
  if (given.scalar_type() != at::kFloat || given.numel() == 0 ||
      factors.size() > static_cast<size_t>(task.kMostFactors))
    return turned_buckets_formula(given, factors);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto y = given.contiguous();
  const auto bucket =
      at::empty(y.sizes().slice(0, static_cast<size_t>(y.dim() - 1)), y.options().dtype(at::kLong));
  task.y = y.const_data_ptr<float>();
  task.bucket = bucket.mutable_data_ptr<int64_t>();
  task.rows = bucket.numel();
  task.columns = y.size(-1);
  for (const int64_t factor : factors) task.factor[task.factors++] = static_cast<int>(factor);
  kernels::turned_buckets_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return bucket;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("turned_buckets", on_cuda);
}

}  // namespace
}  // namespace longbow

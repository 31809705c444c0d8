#include "longbow/ops/dropout.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor on_cuda(const Tensor& given, const Tensor& key, int64_t site, double rate,
               const std::optional<Tensor>& added) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = given.contiguous();
  auto y = at::empty_like(x);
  auto task = dropout_task(x, y, key, site, rate);
  const auto more = added ? added->contiguous() : Tensor();
  if (added) task.added = more.const_data_ptr();
  if (x.numel() == 0) return y;
  kernels::dropout_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("philox_dropout", on_cuda);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/philox.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/philox_task.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor on_cuda(const Tensor& key, int64_t site, at::IntArrayRef shape) {
  const c10::cuda::CUDAGuard guard(key.device());
  auto out = empty_draw(key, shape);
  if (out.numel() == 0) return out;
  kernels::philox_uniform_cuda({.key = key.const_data_ptr<int64_t>(),
                                .site = static_cast<uint64_t>(site),
                                .out = out.mutable_data_ptr<float>(),
                                .first = 0,
                                .count = out.numel()},
                               c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

void window_on_cuda(const Tensor& key, int64_t site, int64_t rows, int64_t columns, int64_t row,
                    int64_t column, Tensor& out) {
  const c10::cuda::CUDAGuard guard(key.device());
  const auto task = window_task(key, site, rows, columns, row, column, out);
  if (out.numel() == 0) return;
  kernels::philox_window_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("philox_uniform", on_cuda);
  m.impl("philox_window", window_on_cuda);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/row_sum.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;

// Each block sums its share of the rows; the few partial sums are LibTorch's to add.
Tensor on_cuda(const Tensor& given) {
  TORCH_CHECK(given.dim() >= 1, "row_sum: x is ", given.sizes(), ", but needs [..., width]");
  const auto rows = given.dim() == 1 ? given.unsqueeze(0) : given.flatten(0, -2);
  if (!has_row_kernel(rows)) return rows.sum(0);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = token_rows(rows);
  const int64_t parts = kernels::row_parts(element_of(x), x.size(0), x.size(1));
  auto sums = at::empty({parts, x.size(1)}, x.options().dtype(at::kFloat));
  kernels::row_sum_cuda({.type = element_of(x),
                         .x = x.const_data_ptr(),
                         .sums = sums.mutable_data_ptr<float>(),
                         .rows = x.size(0),
                         .width = x.size(1),
                         .parts = parts,
                         .stride = x.stride(0)},
                        c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums.sum(0).to(x.scalar_type());
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("row_sum", on_cuda);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/exponential_features.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/exponential_features.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> on_cuda(const Tensor& given, const Tensor& matrix, bool mirrored,
                                   double scale, const std::optional<Tensor>& given_keep, bool) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = given.stride(3) == 1 ? given : given.contiguous(),
             omega = dense_rows(matrix.to(at::kFloat)),
             keep = given_keep ? given_keep->contiguous() : Tensor();
  const auto wide = x.options().dtype(at::kFloat);
  const int64_t b = x.size(0), h = x.size(1), n = x.size(2);
  const auto phi = at::empty({b, h, n, omega.size(1) * (mirrored ? 2 : 1)}, wide),
             peaks = at::empty({b, h, n, 1}, wide);
  kernels::exponential_features_cuda(
      {.x = x.const_data_ptr(),
       .x_batch = x.stride(0),
       .x_head = x.stride(1),
       .x_token = x.stride(2),
       .half = x.scalar_type() == at::kBFloat16,
       .omega = omega.const_data_ptr<float>(),
       .omega_head = omega.size(0) > 1 ? omega.stride(0) : 0,
       .mirrored = mirrored,
       .scale = static_cast<float>(scale),
       .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
       .phi = phi.mutable_data_ptr<float>(),
       .peaks = peaks.mutable_data_ptr<float>(),
       .batch = b,
       .heads = h,
       .tokens = n,
       .width = x.size(3),
       .rows = omega.size(1)},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {phi, peaks};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("exponential_features", on_cuda);
}

}  // namespace
}  // namespace longbow

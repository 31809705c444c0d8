#include "longbow/ops/layer_norm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  for (const auto& vector : {weight, bias})
    if (vector.scalar_type() != x.scalar_type() || !vector.is_contiguous() || !is_aligned(vector) ||
        vector.sizes() != x.sizes().slice(x.dim() - 1))
      return false;
  return has_row_kernel(x);
}

Three forward(const Tensor& given, const Tensor& weight, const Tensor& bias, double epsilon) {
  if (!fits(given, weight, bias))
    return at::native_layer_norm(given, weight.sizes(), weight, bias, epsilon);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = token_rows(given);
  auto sizes = given.sizes().vec();
  const auto y = at::empty(sizes, x.options());
  sizes.back() = 1;
  auto mean = at::empty(sizes, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
  kernels::layer_norm_cuda({.type = element_of(x),
                            .x = x.const_data_ptr(),
                            .weight = weight.const_data_ptr(),
                            .bias = bias.const_data_ptr(),
                            .y = y.mutable_data_ptr(),
                            .mean = mean.mutable_data_ptr<float>(),
                            .rstd = rstd.mutable_data_ptr<float>(),
                            .rows = mean.numel(),
                            .width = x.size(-1),
                            .stride = x.stride(0),
                            .epsilon = epsilon},
                           c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, mean, rstd};
}

Three backward(const Tensor& gradient, const Tensor& given, const Tensor& weight,
               const Tensor& bias, const Tensor& mean, const Tensor& rstd) {
  if (!fits(given, weight, bias))
    return at::native_layer_norm_backward(gradient, given, weight.sizes(), mean, rstd, weight, bias,
                                          {true, true, true});
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = token_rows(given), dy = token_rows(gradient);
  const int64_t width = x.size(-1), rows = mean.numel();
  const int64_t parts = kernels::row_parts(element_of(x), rows, width);
  const auto dx = at::empty(given.sizes(), x.options());
  auto sums = at::empty({parts, 2, width}, mean.options());
  kernels::layer_norm_backward_cuda({.type = element_of(x),
                                     .x = x.const_data_ptr(),
                                     .weight = weight.const_data_ptr(),
                                     .dy = dy.const_data_ptr(),
                                     .mean = mean.const_data_ptr<float>(),
                                     .rstd = rstd.const_data_ptr<float>(),
                                     .dx = dx.mutable_data_ptr(),
                                     .sums = sums.mutable_data_ptr<float>(),
                                     .rows = rows,
                                     .width = width,
                                     .parts = parts,
                                     .stride = x.stride(0),
                                     .dy_stride = dy.stride(0)},
                                    c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto whole = sums.sum(0).to(weight.scalar_type());
  return {dx, whole[0], whole[1]};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("layer_norm", forward);
  m.impl("layer_norm_backward", backward);
}

}  // namespace
}  // namespace longbow

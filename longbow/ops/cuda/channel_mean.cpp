#include "longbow/kernels/channel_mean.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/channel_mean_formula.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

bool fits(const Tensor& k, const Tensor& v) {
  return v.numel() > 0 && v.scalar_type() != at::kDouble &&
         kernels::channel_mean_fits(v.size(2), v.size(2) / k.size(2));
}

// Rows without gaps that can be read 16 bytes at a time.
Tensor readable(const Tensor& x) {
  const auto pack = 16 / x.element_size();
  const bool fine = x.stride(2) == 1 && x.stride(1) % pack == 0 && x.stride(0) % pack == 0;
  return fine && is_aligned(x) ? x : dense_rows(x);
}
const bool* pointer(const Optional& keep) {
  return keep ? keep->const_data_ptr<bool>() : nullptr;
}
Optional dense(const Optional& keep) {
  return keep ? Optional(keep->contiguous()) : keep;
}

Two forward(const Tensor& given_k, const Tensor& given_v, const Optional& given_keep) {
  if (!fits(given_k, given_v)) return channel_mean_formula(given_k, given_v, given_keep);
  const c10::cuda::CUDAGuard guard(given_v.device());
  const auto k = readable(given_k), v = readable(given_v);
  const auto keep = dense(given_keep);
  const int64_t batch = v.size(0), tokens = v.size(1), channels = v.size(2);
  const int64_t splits = kernels::channel_mean_splits(batch, tokens, channels);
  const auto options = v.options().dtype(at::kFloat);
  auto parts = at::empty({batch, splits, 3, channels}, options);
  auto mean = at::empty({batch, channels}, options), log_sum = at::empty_like(mean);
  kernels::channel_mean_cuda({.type = element_of(v),
                              .k = k.const_data_ptr(),
                              .v = v.const_data_ptr(),
                              .k_batch = k.stride(0),
                              .k_row = k.stride(1),
                              .v_batch = v.stride(0),
                              .v_row = v.stride(1),
                              .keep = pointer(keep),
                              .parts = parts.mutable_data_ptr<float>(),
                              .mean = mean.mutable_data_ptr<float>(),
                              .log_sum = log_sum.mutable_data_ptr<float>(),
                              .batch = batch,
                              .tokens = tokens,
                              .channels = channels,
                              .group = channels / k.size(2),
                              .splits = splits},
                             c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {mean, log_sum};
}

Two backward(const Tensor& given_gradient, const Tensor& given_k, const Tensor& given_v,
             const Optional& given_keep, const Tensor& mean, const Tensor& log_sum) {
  if (!fits(given_k, given_v))
    return channel_mean_backward_formula(given_gradient, given_k, given_v, given_keep, mean,
                                         log_sum);
  const c10::cuda::CUDAGuard guard(given_v.device());
  const auto k = readable(given_k), v = readable(given_v);
  const auto gradient = dense_rows(given_gradient.to(at::kFloat));
  const auto keep = dense(given_keep);
  auto dk = at::empty(k.sizes(), k.options()), dv = at::empty(v.sizes(), v.options());
  kernels::channel_mean_backward_cuda({.type = element_of(v),
                                       .k = k.const_data_ptr(),
                                       .v = v.const_data_ptr(),
                                       .k_batch = k.stride(0),
                                       .k_row = k.stride(1),
                                       .v_batch = v.stride(0),
                                       .v_row = v.stride(1),
                                       .keep = pointer(keep),
                                       .mean = mean.const_data_ptr<float>(),
                                       .log_sum = log_sum.const_data_ptr<float>(),
                                       .gradient = gradient.const_data_ptr<float>(),
                                       .dk = dk.mutable_data_ptr(),
                                       .dv = dv.mutable_data_ptr(),
                                       .batch = v.size(0),
                                       .tokens = v.size(1),
                                       .channels = v.size(2),
                                       .group = v.size(2) / k.size(2)},
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dk, dv};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("channel_mean", forward);
  m.impl("channel_mean_backward", backward);
}

}  // namespace
}  // namespace longbow

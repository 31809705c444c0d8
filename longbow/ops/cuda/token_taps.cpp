#include "longbow/ops/token_taps.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/token_taps.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

Tensor with_lines(const Tensor& taps) {
  return taps.stride(3) == 1 ? taps : taps.contiguous();
}

kernels::TokenTaps task_of(const Tensor& z, const Tensor& taps, int64_t left) {
  return {.type = element_of(z),
          .batch = z.size(0),
          .tokens = z.size(1),
          .channels = z.size(2),
          .heads = taps.size(1),
          .taps = taps.size(3),
          .left = left,
          .z = z.const_data_ptr(),
          .z_batch = z.stride(0),
          .z_token = z.stride(1),
          .a = taps.const_data_ptr<float>(),
          .a_batch = taps.stride(0),
          .a_head = taps.stride(1),
          .a_token = taps.stride(2),
          .out = nullptr};
}

Tensor forward(const Tensor& given_z, const Tensor& given_taps, int64_t left) {
  if (!has_token_taps_kernel(given_z, given_taps))
    return token_taps_formula(given_z, given_taps, left);
  const c10::cuda::CUDAGuard guard(given_z.device());
  const auto z = readable_tokens(given_z), taps = with_lines(given_taps),
             out = at::empty(z.sizes(), taps.options());
  auto task = task_of(z, taps, left);
  task.out = out.mutable_data_ptr<float>();
  kernels::token_taps_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Two backward(const Tensor& given_dout, const Tensor& given_z, const Tensor& given_taps,
             int64_t left) {
  if (!has_token_taps_kernel(given_z, given_taps)) {
    const auto d = token_taps_formula_backward(given_dout, given_z, given_taps, left);
    return {d.z, d.taps};
  }
  const c10::cuda::CUDAGuard guard(given_z.device());
  const auto z = readable_tokens(given_z), taps = with_lines(given_taps),
             dout = dense_rows(given_dout.to(at::kFloat)), dz = at::empty(z.sizes(), z.options()),
             dtaps = at::empty({z.size(0), z.size(1), taps.size(1), taps.size(3)}, taps.options());
  kernels::token_taps_backward_cuda({.past = task_of(z, taps, left),
                                     .dout = dout.const_data_ptr<float>(),
                                     .dz = dz.mutable_data_ptr(),
                                     .da = dtaps.mutable_data_ptr<float>()},
                                    c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dz, dtaps.transpose(1, 2)};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("token_taps", forward);
  m.impl("token_taps_backward", backward);
}

}  // namespace
}  // namespace longbow

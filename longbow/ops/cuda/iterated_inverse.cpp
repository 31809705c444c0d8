#include "longbow/kernels/iterated_inverse.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

kernels::IteratedInverse<float> task_of(const Tensor& a, const Tensor& states, float* out) {
  return {.order = a.size(1),
          .steps = states.size(0),
          .a = a.const_data_ptr<float>(),
          .states = states.mutable_data_ptr<float>(),
          .stride = a.numel(),
          .out = out};
}

// Of float32 matrices [G, R, R] that the kernels take.
Two forward(const Tensor& given, const Tensor& z, int64_t steps) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto a = given.contiguous(), out = at::empty_like(a),
             states = at::empty({steps, a.size(0), a.size(1), a.size(2)}, a.options());
  states[0].copy_(z);
  kernels::iterated_inverse_cuda(task_of(a, states, out.mutable_data_ptr<float>()), a.size(0),
                                 c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, states};
}

Two backward(const Tensor& given_dout, const Tensor& given, const Tensor& states) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto a = given.contiguous(), dout = given_dout.contiguous(), da = at::empty_like(a),
             dz = at::empty_like(a);
  kernels::iterated_inverse_backward_cuda({.past = task_of(a, states, nullptr),
                                           .dout = dout.const_data_ptr<float>(),
                                           .da = da.mutable_data_ptr<float>(),
                                           .dz = dz.mutable_data_ptr<float>()},
                                          a.size(0), c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {da, dz};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("iterated_inverse", forward);
  m.impl("iterated_inverse_backward", backward);
}

}  // namespace
}  // namespace longbow

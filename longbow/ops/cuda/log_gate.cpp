#include "longbow/ops/log_gate.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/log_gate.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor forward(const Tensor& given, double divisor) {
  if (!has_log_gate_kernel(given)) return log_gate_formula(given, divisor);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto logit = dense_rows(given),
             out = at::empty(given.sizes(), given.options().dtype(at::kFloat));
  kernels::log_gate_cuda({.logit = logit.const_data_ptr(),
                          .out = out.mutable_data_ptr<float>(),
                          .count = logit.numel(),
                          .divisor = static_cast<float>(divisor)},
                         c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Tensor backward(const Tensor& given_dout, const Tensor& given, double divisor) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto logit = dense_rows(given), dout = dense_rows(given_dout.to(at::kFloat)),
             dlogit = at::empty(given.sizes(), given.options());
  kernels::log_gate_backward_cuda({.dout = dout.const_data_ptr<float>(),
                                   .logit = logit.const_data_ptr(),
                                   .dlogit = dlogit.mutable_data_ptr(),
                                   .count = logit.numel(),
                                   .divisor = static_cast<float>(divisor)},
                                  c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dlogit;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("log_gate", forward);
  m.impl("log_gate_backward", backward);
}

}  // namespace
}  // namespace longbow

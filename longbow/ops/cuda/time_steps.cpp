#include "longbow/ops/time_steps.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/time_steps.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The tensors that a task points to.
struct Given {
  Tensor dt, bias, log_rate, keep;
  Given(const Tensor& given, const Tensor& added, const Tensor& rate, const Maybe& kept)
      : dt(given.stride(2) == 1 ? given : given.contiguous()),
        bias(added.to(at::kFloat).contiguous()),
        log_rate(rate.to(at::kFloat).contiguous()) {
    if (kept) keep = kept->contiguous();
  }
  kernels::TimeSteps task(double least, double most) const {
    return {.dt = dt.const_data_ptr(),
            .dt_batch = dt.stride(0),
            .dt_token = dt.stride(1),
            .bias = bias.const_data_ptr<float>(),
            .log_rate = log_rate.const_data_ptr<float>(),
            .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
            .step = nullptr,
            .log_decay = nullptr,
            .batch = dt.size(0),
            .tokens = dt.size(1),
            .heads = dt.size(2),
            .least = static_cast<float>(least),
            .most = static_cast<float>(most)};
  }
};

Two forward(const Tensor& dt, const Tensor& bias, const Tensor& log_rate, const Maybe& keep,
            double least, double most) {
  if (!has_time_steps_kernel(dt)) {
    const auto [step, log_decay] =
        time_steps_formula(dt, bias, log_rate, keep.value_or(Tensor()), least, most);
    return {step, log_decay};
  }
  const c10::cuda::CUDAGuard guard(dt.device());
  const Given given(dt, bias, log_rate, keep);
  const auto options = dt.options().dtype(at::kFloat);
  const auto step = at::empty(dt.sizes(), options), log_decay = at::empty(dt.sizes(), options);
  auto task = given.task(least, most);
  task.step = step.mutable_data_ptr<float>();
  task.log_decay = log_decay.mutable_data_ptr<float>();
  kernels::time_steps_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {step, log_decay};
}

Three backward(const Tensor& given_dstep, const Tensor& given_dlog, const Tensor& dt,
               const Tensor& bias, const Tensor& log_rate, const Maybe& keep, double least,
               double most) {
  const c10::cuda::CUDAGuard guard(dt.device());
  const Given given(dt, bias, log_rate, keep);
  const auto dstep = given_dstep.contiguous(), dlog = given_dlog.contiguous(),
             ddt = at::empty(dt.sizes(), dt.options());
  const auto task = given.task(least, most);
  const int64_t parts = kernels::time_steps_parts(task.batch * task.tokens, task.heads);
  const auto sums = at::empty({parts, 2, task.heads}, given.bias.options());
  kernels::time_steps_backward_cuda({.past = task,
                                     .dstep = dstep.const_data_ptr<float>(),
                                     .dlog_decay = dlog.const_data_ptr<float>(),
                                     .ddt = ddt.mutable_data_ptr(),
                                     .sums = sums.mutable_data_ptr<float>(),
                                     .parts = parts},
                                    c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto all = sums.sum(0);
  return {ddt, all[0].to(bias.scalar_type()), all[1].to(log_rate.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("time_steps", forward);
  m.impl("time_steps_backward", backward);
}

}  // namespace
}  // namespace longbow

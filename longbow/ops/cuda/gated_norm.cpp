#include "longbow/kernels/gated_norm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/gated_norm.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The tensors that a task points to.
struct Given {
  Tensor x, other, gate, weight;
  Given(const Tensor& a, const Maybe& b, const Maybe& factor, const Tensor& w)
      : x(token_rows(a)), weight(w.to(at::kFloat).contiguous()) {
    if (b) other = token_rows(*b);
    if (factor) gate = token_rows(*factor);
  }
  kernels::GatedNorm task(double epsilon) const {
    const int64_t width = weight.size(0), heads = x.size(1) / width;
    return {.x = x.const_data_ptr(),
            .other = other.defined() ? other.const_data_ptr() : nullptr,
            .gate = gate.defined() ? gate.const_data_ptr() : nullptr,
            .x_token = x.stride(0),
            .other_token = other.defined() ? other.stride(0) : 0,
            .gate_token = gate.defined() ? gate.stride(0) : 0,
            .weight = weight.const_data_ptr<float>(),
            .y = nullptr,
            .tokens = x.size(0),
            .heads = heads,
            .width = width,
            .epsilon = static_cast<float>(epsilon)};
  }
};

Tensor forward(const Tensor& x, const Maybe& other, const Maybe& gate, const Tensor& weight,
               double epsilon) {
  const auto second = other.value_or(Tensor()), factor = gate.value_or(Tensor());
  if (!has_gated_norm_kernel(x, second, factor, weight))
    return gated_norm_formula(x, second, factor, weight, epsilon);
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, other, gate, weight);
  const auto y = at::empty(x.sizes(), x.options());
  auto task = given.task(epsilon);
  task.y = y.mutable_data_ptr();
  kernels::gated_norm_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Four backward(const Tensor& given_dy, const Tensor& x, const Maybe& other, const Maybe& gate,
              const Tensor& weight, double epsilon) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, other, gate, weight);
  const auto like_x = [&](const Maybe& t) {
    return t ? at::empty(x.sizes(), x.options()) : Tensor();
  };
  const auto dy = dense_rows(given_dy), dx = like_x(x), dother = like_x(other),
             dgate = like_x(gate);
  const auto task = given.task(epsilon);
  const int64_t parts = kernels::gated_norm_parts(task.tokens * task.heads, task.width);
  const auto dweight = at::empty({parts, task.width}, given.weight.options());
  const auto place = [](const Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; };
  kernels::gated_norm_backward_cuda({.past = task,
                                     .dy = dy.const_data_ptr(),
                                     .dx = place(dx),
                                     .dother = place(dother),
                                     .dgate = place(dgate),
                                     .dweight = dweight.mutable_data_ptr<float>(),
                                     .parts = parts},
                                    c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dother, dgate, dweight.sum(0).to(weight.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("gated_norm", forward);
  m.impl("gated_norm_backward", backward);
}

}  // namespace
}  // namespace longbow

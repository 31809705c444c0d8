#include "longbow/ops/normed_gate.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/normed_gate.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The tensors that a task points to.
struct Given {
  Tensor x, other, gate, weight;
  Given(const Tensor& read, const Maybe& second, const Tensor& gates, const Tensor& w)
      : x(token_rows(read)), gate(token_rows(gates)), weight(w.to(at::kFloat).contiguous()) {
    if (second) other = token_rows(*second);
  }
  kernels::NormedGate task(int64_t groups, double epsilon) const {
    return {.x = x.const_data_ptr(),
            .other = other.defined() ? other.const_data_ptr() : nullptr,
            .gate = gate.const_data_ptr(),
            .x_token = x.stride(0),
            .other_token = other.defined() ? other.stride(0) : 0,
            .gate_token = gate.stride(0),
            .weight = weight.const_data_ptr<float>(),
            .y = nullptr,
            .tokens = x.size(0),
            .groups = groups,
            .width = x.size(1) / groups,
            .epsilon = static_cast<float>(epsilon)};
  }
};

Tensor forward(const Tensor& x, const Maybe& other, const Tensor& gate, const Tensor& weight,
               int64_t groups, double epsilon) {
  const auto second = other.value_or(Tensor());
  if (!has_normed_gate_kernel(x, second, gate, groups))
    return normed_gate_formula(x, second, gate, weight, groups, epsilon);
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, other, gate, weight);
  const auto y = at::empty(x.sizes(), x.options());
  auto task = given.task(groups, epsilon);
  task.y = y.mutable_data_ptr();
  kernels::normed_gate_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Four backward(const Tensor& given_dy, const Tensor& x, const Maybe& other, const Tensor& gate,
              const Tensor& weight, int64_t groups, double epsilon) {
  const c10::cuda::CUDAGuard guard(x.device());
  const Given given(x, other, gate, weight);
  const auto dy = dense_rows(given_dy), dx = at::empty(x.sizes(), x.options()),
             dother = other ? at::empty(x.sizes(), x.options()) : Tensor(),
             dgate = at::empty(x.sizes(), x.options());
  const auto task = given.task(groups, epsilon);
  const int64_t parts = kernels::normed_gate_parts(task.tokens);
  const auto sums = at::empty({parts, x.size(-1)}, given.weight.options());
  kernels::normed_gate_backward_cuda({.past = task,
                                      .dy = dy.const_data_ptr(),
                                      .dx = dx.mutable_data_ptr(),
                                      .dother = other ? dother.mutable_data_ptr() : nullptr,
                                      .dgate = dgate.mutable_data_ptr(),
                                      .sums = sums.mutable_data_ptr<float>(),
                                      .parts = parts},
                                     c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dother, dgate, sums.sum(0).to(weight.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("normed_gate", forward);
  m.impl("normed_gate_backward", backward);
}

}  // namespace
}  // namespace longbow

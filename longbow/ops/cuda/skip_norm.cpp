#include "longbow/ops/skip_norm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/skip_norm.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// The tensors that a task points to.
struct Given {
  Tensor o, x, gate, skip, weight;
  Given(const Tensor& read, const Tensor& passed, const Tensor& factor, const Tensor& gates,
        const Tensor& w)
      : o(token_rows(read)),
        x(token_rows(passed)),
        gate(token_rows(gates)),
        skip(factor.to(at::kFloat).contiguous()),
        weight(w.to(at::kFloat).contiguous()) {}
  kernels::SkipNorm task(int64_t groups, double epsilon) const {
    return {.o = o.const_data_ptr(),
            .x = x.const_data_ptr(),
            .gate = gate.const_data_ptr(),
            .o_token = o.stride(0),
            .x_token = x.stride(0),
            .gate_token = gate.stride(0),
            .skip = skip.const_data_ptr<float>(),
            .weight = weight.const_data_ptr<float>(),
            .y = nullptr,
            .tokens = o.size(0),
            .groups = groups,
            .width = o.size(1) / groups,
            .epsilon = static_cast<float>(epsilon)};
  }
};

Tensor forward(const Tensor& o, const Tensor& x, const Tensor& skip, const Tensor& gate,
               const Tensor& weight, int64_t groups, double epsilon) {
  if (!has_skip_norm_kernel(o, x, gate, groups))
    return skip_norm_formula(o, x, skip, gate, weight, groups, epsilon);
  const c10::cuda::CUDAGuard guard(o.device());
  const Given given(o, x, skip, gate, weight);
  const auto y = at::empty(o.sizes(), o.options());
  auto task = given.task(groups, epsilon);
  task.y = y.mutable_data_ptr();
  kernels::skip_norm_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Five backward(const Tensor& given_dy, const Tensor& o, const Tensor& x, const Tensor& skip,
              const Tensor& gate, const Tensor& weight, int64_t groups, double epsilon) {
  const c10::cuda::CUDAGuard guard(o.device());
  const Given given(o, x, skip, gate, weight);
  const auto dy = dense_rows(given_dy), d_o = at::empty(o.sizes(), o.options()),
             dx = at::empty(o.sizes(), o.options()), dgate = at::empty(o.sizes(), o.options());
  const auto task = given.task(groups, epsilon);
  const int64_t parts = kernels::skip_norm_parts(task.tokens);
  const auto sums = at::empty({parts, 2, o.size(-1)}, given.skip.options());
  kernels::skip_norm_backward_cuda({.past = task,
                                    .dy = dy.const_data_ptr(),
                                    .d_o = d_o.mutable_data_ptr(),
                                    .dx = dx.mutable_data_ptr(),
                                    .dgate = dgate.mutable_data_ptr(),
                                    .sums = sums.mutable_data_ptr<float>(),
                                    .parts = parts},
                                   c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto all = sums.sum(0);
  return {d_o, dx, all[0].to(skip.scalar_type()), dgate, all[1].to(weight.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("skip_norm", forward);
  m.impl("skip_norm_backward", backward);
}

}  // namespace
}  // namespace longbow

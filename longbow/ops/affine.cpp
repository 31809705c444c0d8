#include "longbow/ops/affine.h"

#include <ATen/ATen.h>

#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "longbow/ops/rows.h"
#endif

namespace longbow {

using at::Tensor;

#ifdef LONGBOW_CUDA
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

// [rows, width] -> [width]
Tensor row_sum(const Tensor& given) {
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = dense_rows(given);
  const int64_t rows = x.size(0), width = x.size(1);
  const int64_t parts = kernels::row_parts(element_of(x), rows, width);
  auto sums = at::empty({parts, width}, x.options().dtype(at::kFloat));
  kernels::row_sum_cuda({.type = element_of(x),
                         .x = x.const_data_ptr(),
                         .sums = sums.mutable_data_ptr<float>(),
                         .rows = rows,
                         .width = width,
                         .parts = parts},
                        c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums.sum(0).to(x.scalar_type());
}

struct Gradient : torch::autograd::Function<Gradient> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    context->save_for_backward({x, weight});
    return at::linear(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const auto dy = gradients[0].flatten(0, -2), rows = x.flatten(0, -2);
    Tensor dx, dweight, dbias;
    if (context->needs_input_grad(0)) dx = dy.mm(weight).view(x.sizes());
    if (context->needs_input_grad(1)) dweight = dy.t().mm(rows);
    if (context->needs_input_grad(2)) dbias = at::GradMode::is_enabled() ? dy.sum(0) : row_sum(dy);
    return {dx, dweight, dbias};
  }
};

bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return x.is_cuda() && x.dim() >= 2 && x.numel() > 0 && bias.defined() &&
         at::isFloatingType(x.scalar_type()) && weight.scalar_type() == x.scalar_type() &&
         bias.scalar_type() == x.scalar_type() && at::GradMode::is_enabled() &&
         kernels::rows_fit(element_of(x), weight.size(0));
}

}  // namespace
#endif

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
#ifdef LONGBOW_CUDA
  if (fits(x, weight, bias)) return Gradient::apply(x, weight, bias);
#endif
  return at::linear(x, weight, bias);
}

}  // namespace longbow

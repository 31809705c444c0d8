#include "longbow/ops/layer_norm.h"

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

bool fits(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!x.is_cuda() || x.numel() == 0 || !at::isFloatingType(x.scalar_type())) return false;
  for (const auto& vector : {weight, bias})
    if (vector.scalar_type() != x.scalar_type() || !vector.is_contiguous() || !is_aligned(vector))
      return false;
  return kernels::rows_fit(element_of(x), x.size(-1));
}

struct Normed : torch::autograd::Function<Normed> {
  static Tensor forward(AutogradContext* context, const Tensor& given, const Tensor& weight,
                        const Tensor& bias, double epsilon) {
    const c10::cuda::CUDAGuard guard(given.device());
    const auto x = dense_rows(given);
    const int64_t width = x.size(-1), rows = x.numel() / width;
    auto y = at::empty_like(x);
    auto mean = at::empty({rows}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    kernels::layer_norm_cuda({.type = element_of(x),
                              .x = x.const_data_ptr(),
                              .weight = weight.const_data_ptr(),
                              .bias = bias.const_data_ptr(),
                              .y = y.mutable_data_ptr(),
                              .mean = mean.mutable_data_ptr<float>(),
                              .rstd = rstd.mutable_data_ptr<float>(),
                              .rows = rows,
                              .width = width,
                              .epsilon = epsilon},
                             c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->save_for_backward({x, weight, mean, rstd, bias});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &mean = saved[2], &rstd = saved[3];
    if (at::GradMode::is_enabled()) {  // somebody wants a second derivative
      const auto shape = [&](const Tensor& t) {
        auto sizes = x.sizes().vec();
        sizes.back() = 1;
        return t.view(sizes);
      };
      const auto [dx, dweight, dbias] =
          at::native_layer_norm_backward(gradients[0], x, weight.sizes(), shape(mean), shape(rstd),
                                         weight, saved[4], {true, true, true});
      return {dx, dweight, dbias, Tensor()};
    }
    const c10::cuda::CUDAGuard guard(x.device());
    const auto dy = dense_rows(gradients[0]);
    const int64_t width = x.size(-1), rows = x.numel() / width;
    const int64_t parts = kernels::row_parts(element_of(x), rows, width);
    auto dx = at::empty_like(x);
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
                                       .parts = parts},
                                      c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const auto whole = sums.sum(0).to(weight.scalar_type());
    return {dx, whole[0], whole[1], Tensor()};
  }
};

}  // namespace
#endif

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
#ifdef LONGBOW_CUDA
  if (fits(x, weight, bias)) return Normed::apply(x, weight, bias, epsilon);
#endif
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

}  // namespace longbow

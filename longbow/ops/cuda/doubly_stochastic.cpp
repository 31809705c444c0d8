#include "longbow/ops/doubly_stochastic.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/doubly_stochastic.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

kernels::DoublyStochastic task_of(const Tensor& x, const Tensor& sums) {
  return {.x = x.const_data_ptr<float>(),
          .sums = sums.mutable_data_ptr<float>(),
          .count = x.numel() / (x.size(-1) * x.size(-2)),
          .rows = static_cast<int>(x.size(-2)),
          .columns = static_cast<int>(x.size(-1)),
          .iterations = static_cast<int>(sums.size(-2))};
}

Two forward(const Tensor& given, int64_t iterations) {
  if (!has_doubly_stochastic_kernel(given)) {
    const auto found = doubly_stochastic_formula(given, iterations);
    return {found.out, found.sums};
  }
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = given.contiguous(), out = at::empty(x.sizes(), x.options());
  auto sizes = x.sizes().vec();
  sizes.back() += x.size(-2);
  sizes[sizes.size() - 2] = iterations;
  const auto sums = at::empty(sizes, x.options());
  kernels::doubly_stochastic_cuda({task_of(x, sums), out.mutable_data_ptr<float>()},
                                  c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, sums};
}

Tensor backward(const Tensor& given_dout, const Tensor& given, const Tensor& given_sums) {
  if (!has_doubly_stochastic_kernel(given))
    return doubly_stochastic_formula_backward(given_dout, given, given_sums);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = given.contiguous(), dout = given_dout.contiguous(), sums = given_sums.contiguous(),
             dx = at::empty(x.sizes(), x.options());
  kernels::doubly_stochastic_backward_cuda(
      {task_of(x, sums), dout.const_data_ptr<float>(), dx.mutable_data_ptr<float>()},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dx;
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("doubly_stochastic", forward);
  m.impl("doubly_stochastic_backward", backward);
}

}  // namespace
}  // namespace longbow

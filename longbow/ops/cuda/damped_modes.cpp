#include "longbow/ops/damped_modes.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/damped_modes.h"
#include "longbow/ops/element.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

bool fits(const Tensor& x, int64_t rows) {
  return x.scalar_type() != at::kDouble && x.numel() > 0 && rows > 0;
}

// Parameters without gaps; the results are set by the caller.
struct Given {
  Tensor delta, alpha, beta, eta;
  Given(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d)
      : delta(a.contiguous()), alpha(b.contiguous()), beta(c.contiguous()), eta(d.contiguous()) {}
  kernels::DampedModes task(int64_t rows, double factor, double fastest) const {
    return {.type = element_of(delta),
            .count = rows * delta.size(1),
            .all = delta.numel(),
            .delta = delta.const_data_ptr(),
            .alpha = alpha.const_data_ptr(),
            .beta = beta.const_data_ptr(),
            .eta = eta.const_data_ptr(),
            .factor = static_cast<float>(factor),
            .fastest = static_cast<float>(fastest),
            .rate = nullptr,
            .weight = nullptr};
  }
};

Two forward(const Tensor& delta, const Tensor& alpha, const Tensor& beta, const Tensor& eta,
            int64_t rows, double factor, double fastest) {
  if (!fits(delta, rows)) {
    const auto found = damped_modes_formula({delta, alpha, beta, eta}, rows, factor, fastest);
    return {found.rate, found.weight};
  }
  const c10::cuda::CUDAGuard guard(delta.device());
  const Given given(delta, alpha, beta, eta);
  const auto rate = at::empty({rows, delta.size(1)}, delta.options().dtype(at::kFloat)),
             weight = at::empty_like(rate);
  auto task = given.task(rows, factor, fastest);
  task.rate = rate.mutable_data_ptr<float>();
  task.weight = weight.mutable_data_ptr<float>();
  kernels::damped_modes_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {rate, weight};
}

Four backward(const Tensor& given_drate, const Tensor& given_dweight, const Tensor& delta,
              const Tensor& alpha, const Tensor& beta, const Tensor& eta, double factor,
              double fastest) {
  if (!fits(delta, given_drate.size(0))) {
    const auto found = damped_modes_formula_backward({given_drate, given_dweight},
                                                     {delta, alpha, beta, eta}, factor, fastest);
    return {found.delta, found.alpha, found.beta, found.eta};
  }
  const c10::cuda::CUDAGuard guard(delta.device());
  const Given given(delta, alpha, beta, eta);
  const auto drate = given_drate.contiguous(), dweight = given_dweight.contiguous();
  const auto like = [&] { return at::empty(delta.sizes(), delta.options()); };
  const auto ddelta = like(), dalpha = like(), dbeta = like(), deta = like();
  kernels::damped_modes_backward_cuda({.past = given.task(drate.size(0), factor, fastest),
                                       .drate = drate.const_data_ptr<float>(),
                                       .dweight = dweight.const_data_ptr<float>(),
                                       .ddelta = ddelta.mutable_data_ptr(),
                                       .dalpha = dalpha.mutable_data_ptr(),
                                       .dbeta = dbeta.mutable_data_ptr(),
                                       .deta = deta.mutable_data_ptr()},
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {ddelta, dalpha, dbeta, deta};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("damped_modes", forward);
  m.impl("damped_modes_backward", backward);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/running_mean.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/kernels/running_mean.h"
#include "longbow/ops/cuda/channel_pairs.h"
#include "longbow/ops/element.h"
#include "longbow/ops/running_mean_formula.h"

namespace longbow {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

// The arguments as kernels read them; it holds what their addresses point to.
struct Given {
  Tensor gate, k, v, keep;

  Given(const Tensor& given_gate, const Tensor& given_k, const Tensor& given_v,
        const Optional& given_keep)
      : gate(paired(given_gate)),
        k(paired(given_k)),
        v(paired(given_v)),
        keep(given_keep ? given_keep->contiguous() : Tensor()) {}

  int64_t chunks() const {
    return (v.size(1) + kernels::RunningMean::chunk - 1) / kernels::RunningMean::chunk;
  }
  Tensor numbers() const {
    return at::empty({v.size(0), chunks(), 3, v.size(2)}, v.options().dtype(at::kFloat));
  }
  kernels::RunningMean task(const Tensor& sums) const {
    return {.type = element_of(v),
            .gate = token_rows_of(gate),
            .k = token_rows_of(k),
            .v = token_rows_of(v),
            .keep = keep.defined() ? keep.const_data_ptr<bool>() : nullptr,
            .sums = sums.mutable_data_ptr<float>(),
            .batch = v.size(0),
            .tokens = v.size(1),
            .channels = v.size(2),
            .chunks = chunks()};
  }
};

std::tuple<Tensor, Tensor> forward(const Tensor& gate, const Tensor& k, const Tensor& v,
                                   const Optional& keep) {
  if (!has_running_kernel(v)) return running_mean_formula(gate, k, v, keep);
  const c10::cuda::CUDAGuard guard(v.device());
  const Given given(gate, k, v, keep);
  const auto sums = given.numbers(), out = at::empty(v.sizes(), v.options());
  kernels::running_mean_cuda({.all = given.task(sums), .out = token_results_of(out)},
                             c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, sums};
}

// Gradients lie beside each other, as one product that made all three wants them (ops/affine.h).
std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& given_gradient, const Tensor& gate,
                                            const Tensor& k, const Tensor& v, const Optional& keep,
                                            const Tensor& sums) {
  if (!has_running_kernel(v))
    return running_mean_backward_formula(given_gradient, gate, k, v, keep, sums);
  const c10::cuda::CUDAGuard guard(v.device());
  const Given given(gate, k, v, keep);
  const auto gradient = paired(given_gradient.to(v.scalar_type())), tails = given.numbers();
  const int64_t c = v.size(2);
  const auto all = at::empty({v.size(0), v.size(1), 3 * c}, v.options());
  const auto dgate = all.narrow(2, 0, c), dk = all.narrow(2, c, c), dv = all.narrow(2, 2 * c, c);
  kernels::running_mean_backward_cuda({.all = given.task(sums),
                                       .gradient = token_rows_of(gradient),
                                       .tails = tails.mutable_data_ptr<float>(),
                                       .dgate = token_results_of(dgate),
                                       .dk = token_results_of(dk),
                                       .dv = token_results_of(dv)},
                                      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dgate, dk, dv};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("running_mean", forward);
  m.impl("running_mean_backward", backward);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/blend.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/blend.h"
#include "longbow/ops/cuda/rows.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using kernels::Blend;
using Gradients = std::tuple<std::vector<Tensor>, Tensor>;

bool fits(at::TensorList fields) {
  const auto& x = fields[0];
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && x.size(3) % 8 == 0 &&
         x.size(1) * x.size(3) <= Blend::kMostChannels &&
         fields.size() <= static_cast<size_t>(Blend::kMostFields);
}

// What the kernels read; the result is set by the caller.
struct Given {
  std::vector<Tensor> fields;
  Tensor weights;
  Blend task;

  Given(at::TensorList of, const Tensor& by) : weights(dense_rows(by)) {
    const auto& x = of[0];
    task = {.type = element_of(x),
            .batch = x.size(0),
            .heads = x.size(1),
            .tokens = x.size(2),
            .width = x.size(3),
            .fields = static_cast<int>(of.size()),
            .from = {},
            .weights = weights.const_data_ptr(),
            .out = {}};
    for (size_t f = 0; f < of.size(); ++f) {
      fields.push_back(with_rows(of[f]));
      task.from[f] = rows_of(fields.back());
    }
  }
};

Tensor forward(at::TensorList fields, const Tensor& weights) {
  if (!fits(fields)) return blend_formula(fields, weights);
  const c10::cuda::CUDAGuard guard(weights.device());
  Given given(fields, weights);
  const auto out = empty_rows(fields[0], fields[0].size(3));
  given.task.out = results_of(out);
  kernels::blend_cuda(given.task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Gradients backward(const Tensor& given_dout, at::TensorList fields, const Tensor& weights) {
  if (!fits(fields)) return blend_formula_backward(given_dout, fields, weights);
  const c10::cuda::CUDAGuard guard(weights.device());
  const Given given(fields, weights);
  const auto dout = with_rows(given_dout);
  kernels::BlendBackward task = {.past = given.task,
                                 .dout = rows_of(dout),
                                 .dfrom = {},
                                 .parts = kernels::blend_parts(given.task),
                                 .sums = nullptr};
  std::vector<Tensor> found;
  for (size_t f = 0; f < fields.size(); ++f) {
    found.push_back(empty_rows(dout, dout.size(3)));
    task.dfrom[f] = results_of(found.back());
  }
  const auto sums = at::empty({task.parts, weights.numel()}, weights.options().dtype(at::kFloat));
  task.sums = sums.mutable_data_ptr<float>();
  kernels::blend_backward_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {found, sums.sum(0).to(weights.scalar_type()).view(weights.sizes())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("blend", forward);
  m.impl("blend_backward", backward);
}

}  // namespace
}  // namespace longbow

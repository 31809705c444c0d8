#include "longbow/kernels/divided_softmax.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "longbow/ops/divided_softmax_formula.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

// A divisor of float32 has no gradient by the kernel, and neither has one for a whole row.
bool fits(const Tensor& scores, const MaybeDivisor& divisor, bool wanted) {
  const int64_t width = scores.size(3);
  if (scores.scalar_type() != at::kBFloat16 || scores.numel() == 0 || width % 8 != 0 ||
      width > kernels::kMostDivided)
    return false;
  if (!divisor) return true;
  const bool wide = divisor->scalar_type() == at::kFloat;
  return (divisor->size(3) == 1 || divisor->size(3) == width) &&
         (wide || divisor->scalar_type() == at::kBFloat16) &&
         !(wanted && (wide || divisor->sizes() != scores.sizes()));
}

// A divisor of whole rows is read number by number, wherever it stands.
Tensor readable(const Tensor& divisor, const Tensor& scores) {
  const auto all = divisor.expand({scores.size(0), scores.size(1), scores.size(2), -1});
  const bool rows = divisor.scalar_type() == at::kBFloat16 && divisor.size(3) > 1;
  return rows ? with_rows(all) : all.stride(3) == 1 || all.size(3) == 1 ? all : all.contiguous();
}

kernels::DividedSoftmax task_of(const Tensor& scores, const Tensor& divisor, double least,
                                double scale) {
  const bool has = divisor.defined();
  return {.scores = rows_of(scores),
          .divisor = has ? rows_of(divisor) : kernels::HeadRows{},
          .wide = has && divisor.scalar_type() == at::kFloat,
          .single = has && divisor.size(3) == 1,
          .least = static_cast<float>(least),
          .scale = static_cast<float>(scale),
          .batch = scores.size(0),
          .heads = scores.size(1),
          .tokens = scores.size(2),
          .width = scores.size(3),
          .gradient = {},
          .out = {},
          .ddivisor = {}};
}

Tensor forward(const Tensor& given, const MaybeDivisor& divisor, double least, double scale) {
  if (!fits(given, divisor, false)) return divided_softmax_by_aten(given, divisor, least, scale);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto scores = with_rows(given), by = divisor ? readable(*divisor, scores) : Tensor();
  const auto out = empty_rows(scores, scores.size(3));
  auto task = task_of(scores, by, least, scale);
  task.out = results_of(out);
  kernels::divided_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Two backward(const Tensor& given_gradient, const Tensor& given, const MaybeDivisor& divisor,
             double least, double scale, bool wanted) {
  if (!fits(given, divisor, wanted) || given_gradient.scalar_type() != at::kBFloat16)
    return divided_softmax_backward_by_aten(given_gradient, given, divisor, least, scale, wanted);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto scores = with_rows(given), gradient = with_rows(given_gradient),
             by = divisor ? readable(*divisor, scores) : Tensor();
  const auto dscores = empty_rows(scores, scores.size(3)),
             ddivisor = wanted ? at::empty_like(dscores) : at::empty({0}, scores.options());
  auto task = task_of(scores, by, least, scale);
  task.gradient = rows_of(gradient);
  task.out = results_of(dscores);
  if (wanted) task.ddivisor = results_of(ddivisor);
  kernels::divided_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dscores, ddivisor};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("divided_softmax", forward);
  m.impl("divided_softmax_backward", backward);
}

}  // namespace
}  // namespace longbow

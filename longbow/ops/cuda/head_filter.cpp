#include "longbow/ops/head_filter.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/head_filter.h"
#include "longbow/kernels/head_span.h"
#include "longbow/ops/element.h"
#include "longbow/ops/head_rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

bool fits(const Tensor& x, const Tensor& filter) {
  constexpr int64_t kMostTokens = int64_t{1} << 30;  // the kernels count in 32 bits
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kHalf) && x.numel() > 0 && x.size(3) % 8 == 0 &&
         x.size(3) <= kernels::kMostFilteredWidth && filter.size(1) <= kernels::kMostFilterTaps &&
         x.size(2) < kMostTokens;
}

kernels::HeadFilter task_of(const Tensor& x, const Tensor& filter, const Tensor& out) {
  return {.type = element_of(x),
          .batch = x.size(0),
          .heads = x.size(1),
          .tokens = x.size(2),
          .width = x.size(3),
          .taps = filter.size(1),
          .x = rows_of(x),
          .filter = filter.const_data_ptr<float>(),
          .span = kernels::head_span(x.size(0) * x.size(1), x.size(2)),
          .out = results_of(out)};
}

Tensor forward(const Tensor& given, const Tensor& given_filter) {
  if (!fits(given, given_filter)) return head_filter_formula(given, given_filter);
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), filter = given_filter.to(at::kFloat).contiguous(),
             out = empty_rows(x, x.size(3));
  kernels::head_filter_cuda(task_of(x, filter, out), c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Two backward(const Tensor& given_dout, const Tensor& given, const Tensor& given_filter) {
  if (!fits(given, given_filter)) {
    const auto d = head_filter_formula_backward(given_dout, given, given_filter);
    return {d.x, d.filter};
  }
  const c10::cuda::CUDAGuard guard(given.device());
  const auto x = with_rows(given), dout = with_rows(given_dout),
             filter = given_filter.to(at::kFloat).contiguous(), dx = empty_rows(x, x.size(3));
  const auto task = task_of(x, filter, dx);
  const auto dfilter =
      at::empty({kernels::spans_of(x.size(2), task.span), x.size(0), x.size(1), filter.size(1)},
                filter.options());
  kernels::head_filter_backward_cuda(
      {.past = task, .dout = rows_of(dout), .dfilter = dfilter.mutable_data_ptr<float>()},
      c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dfilter.flatten(0, 1).sum(0).to(given_filter.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("head_filter", forward);
  m.impl("head_filter_backward", backward);
}

}  // namespace
}  // namespace longbow

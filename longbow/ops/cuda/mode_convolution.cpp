#include "longbow/ops/mode_convolution.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Tensor floats(const Tensor& x) {
  return x.to(at::kFloat).contiguous();
}
const float* pointer(const Tensor& x) {
  return x.const_data_ptr<float>();
}
float* room(const Tensor& x) {  // null where it is empty
  return x.numel() > 0 ? x.mutable_data_ptr<float>() : nullptr;
}

// The tensors that a task points to.
struct Given {
  Tensor u, rate, weight, skip;
  Given(const Tensor& tokens, const Tensor& rates, const Tensor& weights, const Tensor& factor)
      : u(readable_tokens(tokens)),
        rate(floats(rates)),
        weight(floats(weights)),
        skip(floats(factor)) {}
  kernels::ModeConvolution task(int64_t first) const {
    return {.rate = pointer(rate),
            .weight = pointer(weight),
            .skip = pointer(skip),
            .table = nullptr,
            .taps = nullptr,
            .starts = nullptr,
            .u = channel_rows(u),
            .y = {},
            .out = {},
            .activation = ModeActivation::none,
            .batch = u.size(0),
            .tokens = u.size(1),
            .channels = u.size(2),
            .modes = rate.size(2),
            .directions = rate.size(0),
            .first = first,
            .segments = (u.size(1) + kernels::kChannelSegment - 1) / kernels::kChannelSegment,
            .eights = (rate.size(2) + 7) / 8};
  }
};

// A number of floats for each mode of each segment.
Tensor by_segment(const kernels::ModeConvolution& task, int64_t each,
                  const at::TensorOptions& options) {
  return at::empty(
      {task.batch, task.segments, task.directions, task.channels, 8 * task.eights, each}, options);
}
Tensor between(const kernels::ModeConvolution& task, const at::TensorOptions& options) {
  return task.segments > 1 ? by_segment(task, 2, options) : at::empty({0}, options);
}

Five forward(const Tensor& u, const Tensor& rate, const Tensor& weight, const Tensor& skip,
             int64_t first, int64_t activation, bool keeps) {
  const auto curve = static_cast<ModeActivation>(activation);
  if (!has_mode_kernel(u)) {
    const auto none = at::empty({0}, u.options());
    return {mode_convolution_formula(u, rate, weight, skip, static_cast<FirstLag>(first), curve),
            none, none, none, none};
  }
  const c10::cuda::CUDAGuard guard(u.device());
  const Given given(u, rate, weight, skip);
  auto task = given.task(first);
  const auto options = given.rate.options();
  const auto table = at::empty({task.directions, task.channels, 8 * task.eights, 8}, options),
             taps = at::empty({task.channels, kernels::kModeTaps}, options),
             starts = between(task, options), out = at::empty(u.sizes(), u.options());
  const bool both = keeps && curve != ModeActivation::none;
  const auto y = both ? at::empty_like(out) : at::empty({0}, out.options());
  task.table = room(table);
  task.taps = room(taps);
  task.starts = room(starts);
  task.out = channel_rows(out);
  if (both) task.y = channel_rows(y);
  task.activation = curve;
  kernels::mode_convolution_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, y, table, taps, starts};
}

Four backward(const Tensor& given_dy, const Tensor& u, const Tensor& rate, const Tensor& weight,
              const Tensor& skip, const Tensor& table, const Tensor& taps, const Tensor& starts,
              int64_t first) {
  const c10::cuda::CUDAGuard guard(u.device());
  const Given given(u, rate, weight, skip);
  auto past = given.task(first);
  past.table = room(table);
  past.taps = room(taps);
  past.starts = room(starts);
  const auto options = given.rate.options();
  const auto dy = readable_tokens(given_dy), du = at::empty(u.sizes(), u.options());
  const auto ends = between(past, options), sums = by_segment(past, 4, options),
             lags =
                 at::empty({past.batch, past.segments, past.channels, kernels::kModeTaps}, options),
             drate = at::empty_like(given.rate), dweight = at::empty_like(given.weight),
             dskip = at::empty_like(given.skip);
  const kernels::ModeConvolutionBackward task = {.past = past,
                                                 .dy = channel_rows(dy),
                                                 .du = channel_rows(du),
                                                 .ends = room(ends),
                                                 .sums = room(sums),
                                                 .lags = room(lags),
                                                 .drate = room(drate),
                                                 .dweight = room(dweight),
                                                 .dskip = room(dskip)};
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  if (task.ends) kernels::mode_ends_cuda(task, stream);
  kernels::mode_convolution_backward_cuda(task, stream);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {du, drate.to(rate.scalar_type()), dweight.to(weight.scalar_type()),
          dskip.to(skip.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("mode_convolution", forward);
  m.impl("mode_convolution_backward", backward);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/channel_taps.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "longbow/kernels/grid_taps.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

kernels::GridTaps task_of(const Tensor& z, const Tensor& taps, int64_t left, int64_t columns) {
  const bool image = columns > 0;
  return {.type = element_of(z),
          .batch = z.size(0),
          .tokens = z.size(1),
          .channels = z.size(2),
          .columns = image ? std::min(columns, z.size(1)) : z.size(1),
          .tall = image ? taps.size(1) : 1,
          .wide = taps.size(-1),
          .above = image ? left : 0,
          .left = left,
          .z = z.const_data_ptr(),
          .z_batch = z.stride(0),
          .z_token = z.stride(1),
          .taps = taps.const_data_ptr(),
          .bias = nullptr,
          .mirrored = false,
          .y = nullptr};
}

Tensor add_up(kernels::GridTaps task, const Tensor& like) {
  const auto y = at::empty(like.sizes(), like.options());
  task.y = y.mutable_data_ptr();
  kernels::grid_taps_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Tensor forward(const Tensor& given_z, const Tensor& given_taps, const Maybe& given_bias,
               int64_t left, bool silu, int64_t columns) {
  if (!has_channel_taps(given_z, given_taps))
    return channel_taps_formula(given_z, given_taps, given_bias.value_or(Tensor()), left,
                                silu ? TapsOutput::silu : TapsOutput::sum, columns);
  const c10::cuda::CUDAGuard guard(given_z.device());
  const auto z = readable_tokens(given_z), taps = given_taps.contiguous(),
             bias = given_bias ? given_bias->contiguous() : Tensor();
  auto task = task_of(z, taps, left, columns);
  if (bias.defined()) task.bias = bias.const_data_ptr();
  auto y = add_up(task, z);
  return silu ? at::silu_(y) : y;
}

// dz are the same taps, mirrored, over du = dy silu'(u).
Three backward(const Tensor& dy, const Tensor& given_z, const Tensor& given_taps, const Maybe& bias,
               int64_t left, bool silu, int64_t columns) {
  if (!has_channel_taps(given_z, given_taps))
    return channel_taps_formula_backward(dy, given_z, given_taps, bias.value_or(Tensor()), left,
                                         silu ? TapsOutput::silu : TapsOutput::sum, columns);
  const c10::cuda::CUDAGuard guard(given_z.device());
  const auto z = readable_tokens(given_z), taps = given_taps.contiguous();
  const auto du = readable_tokens(
      silu ? at::silu_backward(dy, forward(z, taps, bias, left, false, columns)) : dy);
  auto task = task_of(du, taps, taps.size(-1) - 1 - left, columns);
  task.mirrored = true;
  const auto dz = add_up(task, du);

  task = task_of(z, taps, left, columns);
  const int64_t parts = kernels::grid_taps_parts(task), count = task.tall * task.wide;
  const auto sums = at::empty({parts, count + 1, task.channels}, z.options().dtype(at::kFloat)),
             dtaps = at::empty(taps.sizes(), taps.options());
  kernels::grid_taps_backward_cuda({.past = task,
                                    .dy = du.const_data_ptr(),
                                    .dy_batch = du.stride(0),
                                    .dy_token = du.stride(1),
                                    .parts = parts,
                                    .sums = sums.mutable_data_ptr<float>()},
                                   c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto all = sums.sum(0);
  dtaps.view({task.channels, count}).copy_(all.narrow(0, 0, count).t());
  return {dz, dtaps, all.select(0, count).to(taps.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("channel_taps", forward);
  m.impl("channel_taps_backward", backward);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/silu_taps.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>

#include "longbow/kernels/silu_taps.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

kernels::TokenRows<> rows_of(const Tensor& x, bool reversed) {
  auto* data = static_cast<char*>(const_cast<void*>(x.const_data_ptr()));
  const int64_t token = x.stride(1);
  if (!reversed) return {data, x.stride(0), token};
  return {data + (x.size(1) - 1) * token * x.element_size(), x.stride(0), -token};
}

// The tensors that a task points to.
struct Given {
  Tensor z, taps, bias;
  bool reversed;
  UnitParts unit;
  Given(const Tensor& rows, const Tensor& factors, const Tensor& added, bool from_behind,
        const UnitParts& parts)
      : z(readable_tokens(rows)),
        taps(factors.to(at::kFloat).t().contiguous()),
        bias(added.to(at::kFloat).contiguous()),
        reversed(from_behind),
        unit(parts) {}
  kernels::SiluTaps task() const {
    return {.z = rows_of(z, reversed),
            .taps = taps.const_data_ptr<float>(),
            .bias = bias.const_data_ptr<float>(),
            .y = {},
            .batch = z.size(0),
            .tokens = z.size(1),
            .channels = z.size(2),
            .count = taps.size(0),
            .unit_channels = unit.channels,
            .unit_width = unit.width};
  }
  // Of each span: dtaps and, last, dbias.
  Tensor empty_sums() const {
    const auto of = task();
    return at::empty({of.batch * of.spans(), of.count + 1, of.channels}, taps.options());
  }
  static Three gradients(const Tensor& dz, const Tensor& sums, const Tensor& taps,
                         const Tensor& bias) {
    const auto all = sums.sum(0);
    const int64_t count = taps.size(1);
    return {dz, all.narrow(0, 0, count).t().to(taps.scalar_type()),
            all.select(0, count).to(bias.scalar_type())};
  }
};

Tensor forward(const Tensor& z, const Tensor& taps, const Tensor& bias, bool reversed,
               int64_t channels, int64_t width) {
  const UnitParts unit = {channels, width};
  if (!has_taps_kernel(z, taps, unit)) return silu_taps_formula(z, taps, bias, reversed, unit);
  const c10::cuda::CUDAGuard guard(z.device());
  const Given given(z, taps, bias, reversed, unit);
  const auto y = at::empty(z.sizes(), z.options());
  auto task = given.task();
  task.y = rows_of(y, reversed);
  kernels::silu_taps_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Three backward(const Tensor& given_dy, const Tensor& z, const Tensor& taps, const Tensor& bias,
               bool reversed, int64_t channels, int64_t width) {
  const c10::cuda::CUDAGuard guard(z.device());
  const Given given(z, taps, bias, reversed, {channels, width});
  const auto dy = readable_tokens(given_dy), dz = at::empty(z.sizes(), z.options());
  const auto task = given.task();
  const auto sums = given.empty_sums();
  kernels::silu_taps_backward_cuda({.past = task,
                                    .dy = rows_of(dy, reversed),
                                    .dz = rows_of(dz, reversed),
                                    .sums = sums.mutable_data_ptr<float>()},
                                   c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return given.gradients(dz, sums, taps, bias);
}

Two both(const Tensor& z, const Tensor& taps, const Tensor& bias, int64_t channels, int64_t width) {
  const UnitParts unit = {channels, width};
  if (!has_taps_kernel(z, taps, unit))
    return {silu_taps_formula(z, taps, bias, false, unit),
            silu_taps_formula(z, taps, bias, true, unit)};
  const c10::cuda::CUDAGuard guard(z.device());
  const Given given(z, taps, bias, false, unit);
  const auto forth = at::empty(z.sizes(), z.options()), back = at::empty(z.sizes(), z.options());
  auto task = given.task();
  task.y = rows_of(forth, false);
  kernels::silu_taps_both_cuda({.forth = task, .back = rows_of(back, false)},
                               c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {forth, back};
}

Three both_backward(const Tensor& given_forth, const Tensor& given_back, const Tensor& z,
                    const Tensor& taps, const Tensor& bias, int64_t channels, int64_t width) {
  const c10::cuda::CUDAGuard guard(z.device());
  const Given given(z, taps, bias, false, {channels, width});
  const auto dforth = readable_tokens(given_forth), dback = readable_tokens(given_back),
             dz = at::empty(z.sizes(), z.options()), sums = given.empty_sums();
  kernels::silu_taps_both_backward_cuda({.past = given.task(),
                                         .dforth = rows_of(dforth, false),
                                         .dback = rows_of(dback, false),
                                         .dz = rows_of(dz, false),
                                         .sums = sums.mutable_data_ptr<float>()},
                                        c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return given.gradients(dz, sums, taps, bias);
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("silu_taps", forward);
  m.impl("silu_taps_backward", backward);
  m.impl("silu_taps_both", both);
  m.impl("silu_taps_both_backward", both_backward);
}

}  // namespace
}  // namespace longbow

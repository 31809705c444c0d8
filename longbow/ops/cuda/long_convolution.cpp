#include "longbow/ops/long_convolution.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "longbow/kernels/long_convolution.h"
#include "longbow/ops/cuda/rows.h"

namespace longbow {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

void* stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}
int64_t segments_of(const Tensor& u) {
  return (u.size(1) + kernels::kChannelSegment - 1) / kernels::kChannelSegment;
}

// Taps as the kernels read them, of this convolution or of that of its gradient.
Tensor table(const Tensor& u, const Tensor& given_past, const Maybe& given_ahead,
             const Tensor& given_skip, bool turned) {
  const auto floats = [](const Tensor& x) {
    const auto rows = x.to(at::kFloat);
    return rows.stride(-1) == 1 ? rows : rows.contiguous();
  };
  const auto past = floats(given_past), ahead = given_ahead ? floats(*given_ahead) : Tensor(),
             skip = floats(given_skip);
  const int64_t reach = kernels::long_reach(segments_of(u));
  const auto taps = at::empty({u.size(2), 2, 2 * reach}, u.options());
  kernels::long_taps_cuda({.past = past.const_data_ptr<float>(),
                           .ahead = ahead.defined() ? ahead.const_data_ptr<float>() : nullptr,
                           .skip = skip.const_data_ptr<float>(),
                           .past_row = past.stride(0),
                           .ahead_row = ahead.defined() ? ahead.stride(0) : 0,
                           .tokens = u.size(1),
                           .channels = u.size(2),
                           .reach = reach,
                           .turned = turned,
                           .table = taps.mutable_data_ptr()},
                          stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return taps;
}

Tensor convolved(const Tensor& u, const Tensor& taps, bool past, bool ahead) {
  const auto y = at::empty(u.sizes(), u.options());
  kernels::long_convolution_cuda({.u = channel_rows(u),
                                  .y = channel_rows(y),
                                  .table = taps.const_data_ptr(),
                                  .past = past,
                                  .ahead = ahead,
                                  .batch = u.size(0),
                                  .tokens = u.size(1),
                                  .channels = u.size(2),
                                  .segments = segments_of(u),
                                  .reach = kernels::long_reach(segments_of(u))},
                                 stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

Tensor forward(const Tensor& given_u, const Tensor& past, const Maybe& ahead, const Tensor& skip) {
  if (!has_long_kernel(given_u))
    return long_convolution_formula(given_u, past, ahead.value_or(Tensor()), skip);
  const c10::cuda::CUDAGuard guard(given_u.device());
  const auto u = readable_tokens(given_u);
  return convolved(u, table(u, past, ahead, skip, /*turned=*/false), true, ahead.has_value());
}

Tensor turned(const Tensor& x) {
  const int64_t segments = segments_of(x);
  const auto to =
      at::empty({x.size(0), x.size(2), segments * kernels::kChannelSegment}, x.options());
  kernels::turned_rows_cuda({.from = channel_rows(x),
                             .to = to.mutable_data_ptr(),
                             .batch = x.size(0),
                             .tokens = x.size(1),
                             .channels = x.size(2),
                             .segments = segments},
                            stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return to;
}

// Of each lag, [C, lags].
Tensor lag_sums(const Tensor& dy, const Tensor& u, bool ahead) {
  const int64_t segments = segments_of(u);
  const auto dy_turned = turned(dy), u_turned = turned(u);
  const auto sums =
      at::empty({u.size(2), kernels::long_lags(segments, ahead)}, u.options().dtype(at::kFloat));
  kernels::long_lags_cuda({.u = u_turned.const_data_ptr(),
                           .dy = dy_turned.const_data_ptr(),
                           .sums = sums.mutable_data_ptr<float>(),
                           .ahead = ahead,
                           .batch = u.size(0),
                           .channels = u.size(2),
                           .segments = segments},
                          stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return sums;
}

Four backward(const Tensor& given_dy, const Tensor& given_u, const Tensor& past, const Maybe& ahead,
              const Tensor& skip) {
  const c10::cuda::CUDAGuard guard(given_u.device());
  const auto u = readable_tokens(given_u), dy = readable_tokens(given_dy);
  const auto du =
      convolved(dy, table(dy, past, ahead, skip, /*turned=*/true), ahead.has_value(), true);
  const auto sums = lag_sums(dy, u, ahead.has_value());
  const int64_t tokens = u.size(1),
                zero = ahead ? segments_of(u) * kernels::kChannelSegment : 0;  // where lag 0 is
  const auto dpast = sums.narrow(1, zero, tokens).t().to(past.scalar_type());
  const auto dahead =
      ahead ? sums.narrow(1, zero - tokens, tokens).flip(1).t().to(ahead->scalar_type())
            : at::empty({0}, past.options());
  return {du, dpast, dahead, sums.select(1, zero).to(skip.scalar_type())};
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("long_convolution", forward);
  m.impl("long_convolution_backward", backward);
}

}  // namespace
}  // namespace longbow

#include "longbow/nn/layers/short_convolution.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "longbow/nn/contract/alignment.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/layers/taps.h"

namespace longbow {
namespace {

constexpr auto kLane = "short_convolution";

// `convolve` sees real tokens first, zeros behind them, and what says so in place of the context.
template <class F>
Tensor over_real_tokens(const Tensor& x, const Context& context, const F& convolve) {
  const auto& mask = context.mask;
  auto keep = mask.query_keep.defined() || context.memory.defined() ? mask.query_keep : mask.keep;
  std::optional<Alignment> order;
  if (mask.ragged && keep.defined()) order.emplace(keep);
  if (order) keep = order->forth(keep);
  const auto z = zero_where_padded(order ? order->forth(x) : x, keep);
  const auto y = convolve(z, Context{.mask = {.keep = keep}}).to(x.scalar_type());
  return order ? order->back(y) : y;
}

}  // namespace

ShortConvolution::ShortConvolution(const Site& site, int64_t width) {
  const int64_t channels = site.shape.width;
  weight_ = parameter("weight", initial_uniform(site, "weight", {channels, width},
                                                1 / std::sqrt(static_cast<double>(width))));
  bias_ = parameter("bias", at::zeros({channels}), {.decay = false});
}

Tensor ShortConvolution::operator()(const Tensor& x, const Context& context) const {
  const int64_t others = weight_.size(1) - 1;
  return over_real_tokens(x, context, [&](const Tensor& z, const Context&) {
    return windowed_taps(z, weight_, context.mask.causal ? others : others / 2) + bias_;
  });
}

void ShortConvolution::start(State& state, int64_t lanes) const {
  open_past_rows(state, kLane, lanes, weight_.size(1) - 1, weight_.size(0),
                 weight_.options().requires_grad(false));
}

Tensor ShortConvolution::extend(const Tensor& x, State& state, const Context& context) const {
  return over_real_tokens(x, context, [&](const Tensor& z, const Context& aligned) {
    return taps_over(grow_past_rows(state, kLane, z, aligned), weight_) + bias_;
  });
}

}  // namespace longbow

#include "longbow/nn/layers/short_convolution.h"

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include <cmath>
#include <optional>
#include <vector>

#include "longbow/core/option_error.h"
#include "longbow/nn/contract/alignment.h"
#include "longbow/nn/layers/past_rows.h"
#include "longbow/nn/layers/taps.h"
#include "longbow/ops/add_bias.h"
#include "longbow/ops/channel_taps.h"

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

void check_convolution(const ConvolutionConfig& config) {
  require_option(config.columns == 0 || config.width % 2 == 1, "convolution",
                 c10::str("has ", config.width, " x ", config.width,
                          " taps, which have no pixel in their middle"),
                 "give it an odd width");
}

ShortConvolution::ShortConvolution(const Site& site, int64_t width, int64_t columns)
    : columns_(columns) {
  const int64_t channels = site.shape.width;
  std::vector<int64_t> sizes = {channels, width};
  if (columns_ > 0) sizes.push_back(width);
  const auto taps = static_cast<double>(columns_ > 0 ? width * width : width);
  weight_ = parameter("weight", initial_uniform(site, "weight", sizes, 1 / std::sqrt(taps)));
  bias_ = parameter("bias", at::zeros({channels}), {.decay = false});
}

Tensor ShortConvolution::around(const Tensor& z, bool causal) const {
  TORCH_CHECK(columns_ == 0 || !causal, "a convolution over an image is not causal");
  const int64_t others = weight_.size(1) - 1, left = causal ? others : others / 2;
  const auto typed = z.to(weight_.scalar_type());
  if (columns_ > 0 || has_channel_taps(typed, weight_))
    return channel_taps(typed, weight_, bias_, left, TapsOutput::sum, columns_);
  return add_bias(windowed_taps(typed, weight_, left), bias_);
}

Tensor ShortConvolution::operator()(const Tensor& x, const Context& context) const {
  return over_real_tokens(
      x, context, [&](const Tensor& z, const Context&) { return around(z, context.mask.causal); });
}

bool ShortConvolution::makes_unit(const Tensor& x, const UnitParts& unit) const {
  return unit.channels > 0 && has_taps_kernel(x, weight_, unit);
}

Tensor ShortConvolution::activated(const Tensor& x, const Context& context, bool reversed,
                                   const UnitParts& unit) const {
  TORCH_CHECK(columns_ == 0, "a convolution over an image has no direction");
  TORCH_CHECK(unit.channels == 0 || makes_unit(x, unit), "no pass makes parts of length 1");
  return over_real_tokens(x, context, [&](const Tensor& z, const Context&) {
    if (has_taps_kernel(z, weight_, unit)) return silu_taps(z, weight_, bias_, reversed, unit);
    if (has_channel_taps(z, weight_))
      return channel_taps(z, reversed ? weight_.flip(-1) : weight_, bias_,
                          reversed ? 0 : weight_.size(1) - 1, TapsOutput::silu);
    return at::silu(reversed ? windowed_taps(z, weight_.flip(-1), 0) + bias_
                             : around(z, /*causal=*/true));
  });
}

BothTaps ShortConvolution::activated_both(const Tensor& x, const Context& context,
                                          const UnitParts& unit) const {
  if (!context.mask.ragged && has_taps_kernel(x, weight_, unit))
    return silu_taps_both(zero_where_padded(x, context.mask.keep), weight_, bias_, unit);
  return {activated(x, context, false, unit), activated(x, context, true, unit)};
}

void ShortConvolution::start(State& state, int64_t lanes) const {
  TORCH_CHECK(columns_ == 0, "a convolution over an image does not decode");
  open_past_rows(state, kLane, lanes, weight_.size(1) - 1, weight_.size(0),
                 weight_.options().requires_grad(false));
}

Tensor ShortConvolution::extend(const Tensor& x, State& state, const Context& context) const {
  return over_real_tokens(x, context, [&](const Tensor& z, const Context& aligned) {
    return taps_over(grow_past_rows(state, kLane, z, aligned), weight_) + bias_;
  });
}

Tensor ShortConvolution::extend_activated(const Tensor& x, State& state, const Context& context,
                                          const UnitParts& unit) const {
  TORCH_CHECK(unit.channels == 0 || makes_unit(x, unit), "no pass makes parts of length 1");
  if (!has_taps_kernel(x, weight_, unit)) return at::silu(extend(x, state, context));
  return over_real_tokens(x, context, [&](const Tensor& z, const Context& aligned) {
    const auto rows = grow_past_rows(state, kLane, z, aligned);
    return silu_taps(rows, weight_, bias_, false, unit)
        .narrow(1, rows.size(1) - z.size(1), z.size(1));
  });
}

}  // namespace longbow

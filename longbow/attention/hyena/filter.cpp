#include "longbow/attention/hyena/filter.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace longbow {
namespace {

constexpr Hint kSlow = {.decay = false, .max_learning_rate = 1e-3};

Tensor lag_features(int64_t longest, int64_t count) {
  const int64_t bands = (count - 1) / 2;
  const auto place = at::linspace(0, 1, longest).unsqueeze(1);
  const auto w = at::arange(longest, at::kFloat).unsqueeze(1) * (2 * std::numbers::pi) /
                 static_cast<double>(longest);
  const auto angle = w * at::linspace(1e-4, static_cast<double>(bands - 1), bands);
  return at::cat({place, angle.cos(), angle.sin().neg()}, 1);
}

}  // namespace

Filter::Filter(const Site& site, int64_t channels, int64_t groups, const FilterConfig& config)
    : config_(config), longest_(site.shape.max_length), channels_(channels) {
  TORCH_CHECK(longest_ > 0, "hyena: its filters need the longest sequence; set max_length");
  const int64_t all = groups * channels, width = config.filter_width;
  if (config.filter == FilterKind::free) {
    constexpr double kDeviation = 0.002;
    kernel_ =
        parameter("kernel", initial_normal(site, "kernel", {longest_, all}, kDeviation), kSlow);
    return;
  }
  features_ = parameter("features", lag_features(longest_, config.features),
                        {.decay = false, .max_learning_rate = 1e-5});
  frequency_ = parameter("frequency", at::full({width}, config.frequency), kSlow);
  int64_t in = config.features;
  const auto uniform = [&](const std::string& name, at::IntArrayRef shape) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    return parameter(name, initial_uniform(site, name, shape, bound), kSlow);
  };
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = uniform("weight" + std::to_string(i), {width, in});
    biases_[i] = uniform("bias" + std::to_string(i), {width});
    in = width;
  }
  last_ = uniform("last", {all, width});
}

Tensor Filter::operator()(int64_t lags, int64_t groups) const {
  TORCH_CHECK(lags <= longest_, "hyena: ", lags, " tokens, but max_length is ", longest_);
  if (!kernel_.defined()) return implicit(lags, groups);
  const auto taps = kernel_.narrow(0, 0, lags).narrow(1, 0, groups * channels_);
  const auto typed = taps.to(wide(taps));
  return config_.squash > 0 ? at::softshrink(typed, config_.squash) : typed;
}

Tensor Filter::implicit(int64_t lags, int64_t groups) const {
  const auto type = wide(features_);
  auto z = features_.narrow(0, 0, lags).to(type);
  for (size_t i = 0; i < weights_.size(); ++i)
    z = (frequency_ * at::linear(z, weights_[i].to(type), biases_[i].to(type))).sin();
  // The window falls to a hundredth after 0.3 to 1.5 times the longest sequence.
  const auto options = features_.options().dtype(at::kFloat);
  const double log_last = std::log(1e-2);
  const auto rates = at::linspace(log_last / 1.5, log_last / 0.3, channels_, options).abs();
  const auto t = at::linspace(0, 1, longest_, options).narrow(0, 0, lags).unsqueeze(1);
  const auto window = (t.to(type) * rates.to(type).neg()).exp() + config_.shift;
  const auto last = last_.narrow(0, 0, groups * channels_).to(type);
  return at::linear(z, last) * window.repeat({1, groups});
}

}  // namespace longbow

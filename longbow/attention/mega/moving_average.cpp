#include "longbow/attention/mega/moving_average.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/ops/fft_convolution.h"

namespace longbow {
namespace {

constexpr auto kLane = "average";

Tensor alternating(int64_t components) {  // 1, -1, 1 …
  return 1 - 2 * at::arange(components, at::kFloat).remainder(2);
}

}  // namespace

MovingAverage::MovingAverage(const Site& site, int64_t components, bool bidirectional)
    : width_(site.shape.width), directions_(bidirectional ? 2 : 1) {
  const auto normal = [&](const std::string& name, double deviation) {
    return initial_normal(site, name, {directions_ * width_, components}, deviation);
  };
  const Hint free = {.decay = false};
  delta_ = parameter("delta", normal("delta", 0.2), free);
  alpha_ = parameter("alpha", normal("alpha", 0.2), free);
  beta_ = parameter("beta", normal("beta", 0.02) + alternating(components), free);
  eta_ = parameter("eta", normal("eta", 1), free);
  omega_ = parameter("omega", initial_normal(site, "omega", {width_}, 1), free);
}

// A component that keeps nothing of its past, phi = 0, has a finite rate, so that lag 0 counts.
Modes MovingAverage::modes(int64_t direction) const {
  constexpr double kFastest = -200;
  const auto rows = [&](const Tensor& t) {
    return t.narrow(0, direction * width_, width_).to(wide(t));
  };
  const auto p = rows(delta_).sigmoid();
  const auto rate = at::log1p(-p * rows(alpha_).sigmoid()).clamp_min(kFastest);
  return {rate, p * rows(beta_) * rows(eta_) / std::sqrt(static_cast<double>(eta_.size(1)))};
}

Tensor MovingAverage::finished(const Tensor& average, const Tensor& x) const {
  return at::silu(average + omega_ * x.to(wide(x))).to(x.scalar_type());
}

Tensor MovingAverage::operator()(const Tensor& x, const Mask& mask) const {
  const bool both = directions_ == 2 && !mask.causal;
  const auto ahead = both ? kernel_of(modes(1), x.size(1)) : Tensor();
  return finished(fft_convolution(zero_where_padded(x, mask.keep), kernel_of(modes(0), x.size(1)),
                                  ahead, FirstLag::zero),
                  x);
}

void MovingAverage::start(State& state, int64_t lanes) const {
  open_modes(state, kLane, lanes, modes(0));
}

Tensor MovingAverage::extend(const Tensor& x, State& state, const Context& context) const {
  const auto& keep = context.mask.keep;
  return finished(grow_modes(state, kLane, zero_where_padded(x, keep).to(wide(x)), modes(0), keep),
                  x);
}

}  // namespace longbow

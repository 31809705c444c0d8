#include "longbow/attention/mega/moving_average.h"

#include <ATen/ATen.h>

#include <cmath>

#include "longbow/ops/damped_modes.h"

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
Modes MovingAverage::modes(int64_t directions) const {
  constexpr double kFastest = -200;
  const auto found = damped_modes({delta_, alpha_, beta_, eta_}, directions * width_,
                                  1 / std::sqrt(static_cast<double>(eta_.size(1))), kFastest);
  const auto by_direction = [&](const Tensor& x) { return x.unflatten(0, {directions, width_}); };
  return {by_direction(found.rate), by_direction(found.weight)};
}

Modes MovingAverage::past() const {
  const auto all = modes(1);
  return {all.rate[0], all.weight[0]};
}

Tensor MovingAverage::operator()(const Tensor& x, const Mask& mask) const {
  return convolved(zero_where_padded(x, mask.keep), modes(mask.causal ? 1 : directions_), omega_,
                   FirstLag::zero, ModeActivation::silu);
}

void MovingAverage::start(State& state, int64_t lanes) const {
  open_modes(state, kLane, lanes, past());
}

Tensor MovingAverage::extend(const Tensor& x, State& state, const Context& context) const {
  const auto& keep = context.mask.keep;
  const auto u = zero_where_padded(x, keep).to(wide(x));
  const auto y = grow_modes(state, kLane, u, past(), keep) + omega_ * u;
  return at::silu(y).to(x.scalar_type());
}

}  // namespace longbow

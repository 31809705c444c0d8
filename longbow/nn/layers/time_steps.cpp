#include "longbow/nn/layers/time_steps.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

TimeSteps::TimeSteps(const Site& site, int64_t heads) {
  const Hint free = {.decay = false};
  const auto step = (std::log(1e-2) + initial_uniform(site, "bias", {heads}, std::log(10.0))).exp();
  bias = parameter("bias", step + (-at::expm1(-step)).log(), free);
  log_rate =
      parameter("log_rate", (8.5 + initial_uniform(site, "log_rate", {heads}, 7.5)).log(), free);
}

Tensor TimeSteps::steps(const Tensor& dt) const {
  return at::softplus(dt + bias.to(dt.scalar_type()));
}

TimeStepping TimeSteps::limited(const Tensor& dt, const Tensor& keep, double least,
                                double most) const {
  return time_steps(dt, bias, log_rate, keep, least, most);
}

Tensor TimeSteps::log_decay(const Tensor& steps) const {
  return -log_rate.to(steps.scalar_type()).exp() * steps;
}

}  // namespace longbow

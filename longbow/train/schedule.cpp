#include "longbow/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longbow {

double schedule_factor(const ScheduleConfig& config, int64_t step, int64_t total) {
  const auto warmup = static_cast<double>(std::max<int64_t>(config.warmup_steps, 1));
  const auto now = static_cast<double>(step);
  if (step < config.warmup_steps) return now / warmup;
  if (config.decay == Decay::constant) return 1;
  if (config.decay == Decay::inverse_sqrt) return std::sqrt(warmup / std::max(now, warmup));
  const double span = std::max(static_cast<double>(total - config.warmup_steps), 1.0);
  const double done = std::min((now - static_cast<double>(config.warmup_steps)) / span, 1.0);
  const double left =
      config.decay == Decay::linear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return config.floor + (1 - config.floor) * left;
}

}  // namespace longbow

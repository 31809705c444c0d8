#include "longbow/train/optimizers/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longbow {
namespace {

// From 1 down to 0 as `done` goes from 0 to 1.
double half_wave(double done) {
  return (1 + std::cos(std::numbers::pi * done)) / 2;
}

// Smith and Topin, 2017, arXiv:1708.07120: up to the peak and down to almost nothing.
double one_cycle(const OneCycleConfig& config, const Moment& moment) {
  const auto total = static_cast<double>(moment.total), now = static_cast<double>(moment.step - 1);
  const double first = 1 / config.start, last = first / config.end;
  const double peak = config.rising * total - 1, back = 2 * config.rising * total - 2;
  const auto between = [&](double from, double to, double start, double end) {
    const double done = end > start ? std::clamp((now - start) / (end - start), 0.0, 1.0) : 1;
    const double left = config.cosine ? half_wave(done) : 1 - done;
    return to + (from - to) * left;
  };
  if (now <= peak) return between(first, 1, 0, peak);
  if (!config.three_phases) return between(1, last, peak, total - 1);
  return now <= back ? between(1, first, peak, back) : between(first, last, back, total - 1);
}

// Loshchilov and Hutter, 2017, arXiv:1608.03983: how much of the present fall is done.
double fall_done(const ScheduleConfig& config, int64_t after) {
  int64_t length = std::max<int64_t>(config.decay_steps, 1);
  while (after >= length) {
    after -= length;
    length *= config.growth;
  }
  return static_cast<double>(after) / static_cast<double>(length);
}

double drops(const ScheduleConfig& config, int64_t count) {
  if (config.decay == Decay::step) return static_cast<double>(count / config.every);
  if (config.decay == Decay::exponential) return static_cast<double>(count);
  return static_cast<double>(std::count_if(config.milestones.begin(), config.milestones.end(),
                                           [&](int64_t at) { return at <= count; }));
}

double plateau_factor(const ScheduleConfig& config, int64_t drops) {
  return std::max(std::pow(config.gamma, static_cast<double>(drops)), config.floor);
}

double inverse_sqrt(const ScheduleConfig& config, double now) {
  const auto warmup = static_cast<double>(std::max<int64_t>(config.warmup_steps, 1));
  const auto scale = config.timescale > 0 ? static_cast<double>(config.timescale) : warmup;
  return std::sqrt(scale / (std::max(now, warmup) - warmup + scale));
}

// What is left between the floor and the peak, of a decay that ends with the training.
double left_of(const ScheduleConfig& config, const Moment& moment) {
  const double span = std::max(static_cast<double>(moment.total - config.warmup_steps), 1.0);
  const double done = std::min(static_cast<double>(moment.step - config.warmup_steps) / span, 1.0);
  switch (config.decay) {
    case Decay::linear:
      return 1 - done;
    case Decay::polynomial:
      return std::pow(1 - done, config.power);
    case Decay::cosine:
      return half_wave(done * (config.cycles > 0 ? 2 * config.cycles : 1));
    case Decay::cosine_restarts:
      return done < 1 ? half_wave(std::fmod(done * std::max(config.cycles, 1.0), 1.0)) : 0;
    default: {  // stable
      const auto falling = static_cast<double>(
          config.decay_steps > 0 ? config.decay_steps : std::max<int64_t>(moment.total / 10, 1));
      const double left = static_cast<double>(moment.total - moment.step) / falling;
      return half_wave(1 - std::clamp(left, 0.0, 1.0));
    }
  }
}

}  // namespace

Plateau after_no_better_score(const ScheduleConfig& config, Plateau plateau) {
  if (++plateau.waited < config.plateau_patience) return plateau;
  const bool falls = plateau_factor(config, plateau.drops) > config.floor;
  return {.drops = plateau.drops + falls, .waited = 0};
}

int64_t paced_step(int64_t step, int64_t total, double time_fraction) {
  const auto due = static_cast<int64_t>(std::floor(static_cast<double>(total) * time_fraction));
  return std::min(std::max(step, due), std::max(step, total));
}

double schedule_factor(const ScheduleConfig& config, const Moment& moment) {
  if (config.decay == Decay::one_cycle) return one_cycle(config.one_cycle, moment);
  if (moment.step < config.warmup_steps)
    return config.warmup_start + (1 - config.warmup_start) * static_cast<double>(moment.step) /
                                     static_cast<double>(config.warmup_steps);
  const int64_t after = moment.step - std::max<int64_t>(config.warmup_steps, 1);
  switch (config.decay) {
    case Decay::constant:
      return 1;
    case Decay::inverse_sqrt:
      return inverse_sqrt(config, static_cast<double>(moment.step));
    case Decay::step:
    case Decay::multi_step:
    case Decay::exponential:
      return std::pow(config.gamma,
                      drops(config, config.count == Count::epochs ? moment.epoch : after));
    case Decay::plateau:
      return plateau_factor(config, moment.drops);
    case Decay::warm_restarts:
      return config.floor + (1 - config.floor) * half_wave(fall_done(config, after));
    default:
      return config.floor + (1 - config.floor) * left_of(config, moment);
  }
}

}  // namespace longbow

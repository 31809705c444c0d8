#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "longbow/core/fields.h"

namespace longbow {

enum class Decay {
  constant,
  linear,
  cosine,
  inverse_sqrt,
  cosine_restarts,
  warm_restarts,
  polynomial,
  stable,
  one_cycle,
  step,
  multi_step,
  exponential,
  plateau
};
constexpr std::array<std::string_view, 13> names_of(Decay) {
  return {"constant",      "linear",      "cosine", "inverse_sqrt", "cosine_restarts",
          "warm_restarts", "polynomial",  "stable", "one_cycle",    "step",
          "multi_step",    "exponential", "plateau"};
}

enum class Count { steps, epochs };
constexpr std::array<std::string_view, 2> names_of(Count) {
  return {"steps", "epochs"};
}

struct OneCycleConfig {
  double rising = 0.3, start = 25, end = 1e4;
  bool cosine = true, three_phases = false;
};
template <class V>
void fields(V& v, OneCycleConfig& c) {
  v("rising", c.rising,
    "one_cycle: fraction of the steps in which the rate rises; it takes no warmup_steps",
    range(0.001, 0.999));
  v("start", c.start, "one_cycle: the first rate is the peak divided by this", at_least(1));
  v("end", c.end, "one_cycle: the last rate is the first divided by this", at_least(1));
  v("cosine", c.cosine, "one_cycle: along a cosine; false: along a line");
  v("three_phases", c.three_phases,
    "one_cycle: return to the first rate as fast as it rose, then fall to the last");
}

struct ScheduleConfig {
  Decay decay = Decay::linear;
  int64_t warmup_steps = 0;
  double warmup_start = 0, floor = 0, cycles = 0, power = 1, gamma = 0.9;
  int64_t decay_steps = 0, timescale = 0, every = 1, growth = 1, plateau_patience = 5;
  std::vector<int64_t> milestones = {};
  Count count = Count::steps;
  OneCycleConfig one_cycle = {};
};
template <class V>
void fields(V& v, ScheduleConfig& c) {
  v("decay", c.decay, "learning-rate schedule after the warmup; docs/config.md has the formulas");
  v("warmup_steps", c.warmup_steps, "steps of linear warmup to the peak learning rate",
    at_least(0));
  v("warmup_start", c.warmup_start, "fraction of the peak at which the warmup starts", range(0, 1));
  v("floor", c.floor,
    "fraction of the peak at which linear, cosine, polynomial and stable decay and restarts end; "
    "plateau: the least fraction",
    range(0, 1));
  v("cycles", c.cycles,
    "cosine: number of waves, 0 = half a wave; cosine_restarts: number of equal cycles, 0 = one",
    at_least(0));
  v("power", c.power, "polynomial: exponent of the fraction of remaining steps", above(0));
  v("gamma", c.gamma, "step, multi_step, exponential, plateau: factor of each drop",
    range(1e-9, 1));
  v("decay_steps", c.decay_steps,
    "stable: steps of the final decay, 0 = a tenth of all; warm_restarts: steps of the first "
    "cycle, required",
    at_least(0));
  v("timescale", c.timescale, "inverse_sqrt: timescale in steps; 0 = warmup_steps", at_least(0));
  v("every", c.every, "step: counts (of steps or epochs) between drops", at_least(1));
  v("growth", c.growth, "warm_restarts: factor on the length of each further cycle", at_least(1));
  v("milestones", c.milestones,
    "multi_step: counts (of steps or epochs) after which the rate drops", at_least(0));
  v("plateau_patience", c.plateau_patience,
    "plateau: evaluations in a row without a better score before each drop; needs evaluate_every",
    at_least(1));
  v("count", c.count, "what step, multi_step and exponential count");
  v("one_cycle", c.one_cycle, "options of one_cycle");
}

// Where a training stands when a step begins.
struct Moment {
  int64_t step = 1;   // counted from 1
  int64_t total = 1;  // steps of the whole training
  int64_t epoch = 0;  // counted from 0
  int64_t drops = 0;  // of a plateau
};

// How often the rate of `decay: plateau` has dropped, and the evaluations without a better score
// since the last drop or better score.
struct Plateau {
  int64_t drops = 0, waited = 0;
};
template <class V>
void fields(V& v, Plateau& p) {
  v("drops", p.drops, "of the learning rate", at_least(0));
  v("waited", p.waited, "evaluations without a better score since the last drop", at_least(0));
}
// After an evaluation without a better score. A rate that is at the floor does not drop.
Plateau after_no_better_score(const ScheduleConfig& config, Plateau plateau);

// The step at which a schedule of `total` steps stands when step `step` begins after this fraction
// of the time that it may take. Where the time ends before the steps do, warm-up and decay keep
// their shape and are gone through faster.
int64_t paced_step(int64_t step, int64_t total, double time_fraction);

// The factor on the peak learning rate at a step. Step `warmup_steps` has factor 1; linear, cosine
// and polynomial decay reach the floor at `total`; inverse_sqrt is sqrt(warmup / step). Drops and
// falls that repeat count from the first step after the warm-up.
double schedule_factor(const ScheduleConfig& config, const Moment& moment);

}  // namespace longbow

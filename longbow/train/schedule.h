#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "longbow/core/fields.h"

namespace longbow {

enum class Decay { constant, linear, cosine, inverse_sqrt };
constexpr std::array<std::string_view, 4> names_of(Decay) {
  return {"constant", "linear", "cosine", "inverse_sqrt"};
}

struct ScheduleConfig {
  Decay decay = Decay::linear;
  int64_t warmup_steps = 0;
  double floor = 0;
};
template <class V>
void fields(V& v, ScheduleConfig& c) {
  v("decay", c.decay, "what the learning rate does after the warm-up");
  v("warmup_steps", c.warmup_steps, "steps of linear rise from 0", at_least(0));
  v("floor", c.floor, "share of the peak that linear and cosine decay end at", range(0, 1));
}

// The factor on the peak learning rate at a step, counted from 1. Step `warmup_steps` has factor 1;
// linear and cosine reach the floor at `total`; inverse_sqrt is sqrt(warmup / step).
double schedule_factor(const ScheduleConfig& config, int64_t step, int64_t total);

}  // namespace longbow

#include "longbow/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/train/parity.h"

namespace longbow {
namespace {

constexpr int64_t kTotal = 100, kWarmup = 10;

double at_step(Decay decay, int64_t step, double floor = 0) {
  return schedule_factor({.decay = decay, .warmup_steps = kWarmup, .floor = floor}, step, kTotal);
}

constexpr Decay kAll[] = {Decay::constant, Decay::linear, Decay::cosine, Decay::inverse_sqrt};

TEST(Schedule, EveryKindRisesLinearlyToOneAtTheEndOfTheWarmUp) {
  for (const auto decay : kAll)
    for (int64_t step = 1; step <= kWarmup; ++step)
      EXPECT_DOUBLE_EQ(at_step(decay, step), static_cast<double>(step) / 10);
}

TEST(Schedule, ConstantStays) {
  EXPECT_EQ(at_step(Decay::constant, 11), 1);
  EXPECT_EQ(at_step(Decay::constant, 100), 1);
}

TEST(Schedule, LinearFallsToTheFloor) {
  EXPECT_DOUBLE_EQ(at_step(Decay::linear, 55), 0.5);
  EXPECT_DOUBLE_EQ(at_step(Decay::linear, 100), 0);
  EXPECT_DOUBLE_EQ(at_step(Decay::linear, 55, 0.2), 0.2 + 0.8 * 0.5);
  EXPECT_DOUBLE_EQ(at_step(Decay::linear, 100, 0.2), 0.2);
  EXPECT_DOUBLE_EQ(at_step(Decay::linear, 140, 0.2), 0.2) << "behind the end";
}

TEST(Schedule, CosineFallsToTheFloor) {
  EXPECT_NEAR(at_step(Decay::cosine, 55), 0.5, 1e-15);
  EXPECT_NEAR(at_step(Decay::cosine, 40), (1 + std::cos(std::numbers::pi / 3)) / 2, 1e-15);
  EXPECT_NEAR(at_step(Decay::cosine, 100, 0.1), 0.1, 1e-15);
}

TEST(Schedule, InverseSqrtIsTheRootOfWarmUpOverStep) {
  EXPECT_DOUBLE_EQ(at_step(Decay::inverse_sqrt, 40), 0.5);
  EXPECT_DOUBLE_EQ(at_step(Decay::inverse_sqrt, 90), std::sqrt(1.0 / 9));
}

TEST(Schedule, WithoutAWarmUpTheFirstStepIsFull) {
  for (const auto decay : kAll)
    EXPECT_GE(schedule_factor({.decay = decay}, 1, kTotal), 0.99) << static_cast<int>(decay);
}

TEST(Schedule, AWarmUpAsLongAsTheTrainingIsAllowed) {
  EXPECT_EQ(schedule_factor({.decay = Decay::linear, .warmup_steps = 5}, 5, 5), 1);
  EXPECT_EQ(schedule_factor({.decay = Decay::cosine, .warmup_steps = 9}, 5, 5), 5.0 / 9);
}

struct Published {
  const char* name;
  ScheduleConfig config;
  int64_t total;
};

// Their rates count updates from 0 and ours from 1, so that our first update does something: our
// step t is theirs.
TEST(Schedule, AgreesWithThePublishedRates) {
  const auto vectors = parity("formats/schedules.json");
  if (vectors.is_null()) GTEST_SKIP() << kNoParity;
  const std::vector<Published> cases = {
      {"linear", {.decay = Decay::linear, .warmup_steps = 10}, 100},
      {"linear, no warm-up", {.decay = Decay::linear}, 80},
      {"constant with warm-up", {.decay = Decay::constant, .warmup_steps = 10}, 100},
      {"cosine", {.decay = Decay::cosine, .warmup_steps = 10}, 100},
      {"inverse square root", {.decay = Decay::inverse_sqrt, .warmup_steps = 10}, 100},
      {"get_cosine_with_min_lr_schedule_with_warmup",
       {.decay = Decay::cosine, .warmup_steps = 10, .floor = 0.2},
       100},
  };
  size_t found = 0;
  for (const auto& [name, config, total] : cases)
    for (const auto& schedule : vectors.at("schedules")) {
      if (schedule.at("name") != name) continue;
      ++found;
      const auto& rates = schedule.at("lr");
      for (size_t step = 1; step < rates.size(); ++step)
        EXPECT_NEAR(schedule.at("base_lr").get<double>() *
                        schedule_factor(config, static_cast<int64_t>(step), total),
                    rates[step].get<double>(), 1e-12)
            << name << " at " << step;
    }
  EXPECT_EQ(found, cases.size());
}

}  // namespace
}  // namespace longbow

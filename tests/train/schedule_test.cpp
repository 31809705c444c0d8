#include "longbow/train/optimizers/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "longbow/core/console.h"
#include "tests/train/parity.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

constexpr int64_t kTotal = 100, kWarmup = 10;

double at_step(Decay decay, int64_t step, double floor = 0) {
  return schedule_factor({.decay = decay, .warmup_steps = kWarmup, .floor = floor},
                         {.step = step, .total = kTotal});
}

constexpr Decay kAll[] = {Decay::constant,     Decay::linear,          Decay::cosine,
                          Decay::inverse_sqrt, Decay::cosine_restarts, Decay::warm_restarts,
                          Decay::polynomial,   Decay::stable,          Decay::step,
                          Decay::multi_step,   Decay::exponential,     Decay::plateau};

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
    EXPECT_GE(schedule_factor({.decay = decay}, {.step = 1, .total = kTotal}), 0.99)
        << static_cast<int>(decay);
}

TEST(Schedule, AWarmUpAsLongAsTheTrainingIsAllowed) {
  EXPECT_EQ(schedule_factor({.decay = Decay::linear, .warmup_steps = 5}, {.step = 5, .total = 5}),
            1);
  EXPECT_EQ(schedule_factor({.decay = Decay::cosine, .warmup_steps = 9}, {.step = 5, .total = 5}),
            5.0 / 9);
}

TEST(Schedule, WhereTimeEndsFirstTheStepsOfAScheduleAreLonger) {
  EXPECT_EQ(paced_step(7, 100, 0), 7) << "no limit";
  EXPECT_EQ(paced_step(7, 100, 0.05), 7) << "ahead of time";
  EXPECT_EQ(paced_step(7, 100, 0.5), 50);
  EXPECT_EQ(paced_step(7, 100, 1.2), 100) << "never past the end";
  EXPECT_EQ(paced_step(120, 100, 0.2), 120);
}

RunConfig learning_to_recall() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 96, valid: 24, test: 24, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1}", "model");
  config.train.sampler.batch_size = 8;
  config.train.log_every = 1;
  return config;
}

TEST(Schedule, TheRateFallsWithTheTimeThatIsLeft) {
  auto config = learning_to_recall();
  config.train.max_steps = 100000;
  config.train.max_seconds = 0.5;
  config.train.schedule.warmup_steps = 1000;  // a hundredth of the time
  const auto folder = scratch();
  (void)run(config, folder);
  const auto lines = metrics(folder, "train");
  std::vector<double> rates;
  for (const auto& line : lines) rates.push_back(line.at("learning_rate").get<double>());
  const auto peak = std::ranges::max(rates);
  EXPECT_GT(peak, 0.8 * config.train.optimizer.learning_rate) << "of " << rates.size() << " steps";
  EXPECT_LT(rates.back(), peak / 2);
  EXPECT_LT(rates.front(), peak / 100);
}

TEST(Schedule, DropsCountStepsOrEpochs) {
  ScheduleConfig config = {.decay = Decay::step, .warmup_steps = 4, .gamma = 0.5, .every = 3};
  std::vector<double> factors;
  for (int64_t step = 1; step <= 11; ++step)
    factors.push_back(schedule_factor(config, {.step = step, .total = 100, .epoch = step / 8}));
  EXPECT_EQ(factors, (std::vector<double>{0.25, 0.5, 0.75, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  config.count = Count::epochs;
  config.every = 2;
  const auto in_epoch = [&](int64_t epoch) {
    return schedule_factor(config, {.step = 50 + epoch, .total = 100, .epoch = epoch});
  };
  EXPECT_EQ(in_epoch(1), 1);
  EXPECT_EQ(in_epoch(2), 0.5);
  EXPECT_EQ(in_epoch(5), 0.25);
  config.decay = Decay::exponential;
  EXPECT_EQ(in_epoch(3), 0.125);
  config.decay = Decay::multi_step;
  config.milestones = {1, 4};
  EXPECT_EQ(in_epoch(0), 1);
  EXPECT_EQ(in_epoch(3), 0.5);
  EXPECT_EQ(in_epoch(4), 0.25);
}

TEST(Schedule, APlateauDropsToTheFloorAndNoFurther) {
  const ScheduleConfig config = {.decay = Decay::plateau,
                                 .warmup_steps = 4,
                                 .floor = 0.2,
                                 .gamma = 0.5,
                                 .plateau_patience = 2};
  Plateau plateau;
  std::vector<double> factors;
  std::vector<int64_t> waited;
  for (int64_t evaluation = 1; evaluation <= 9; ++evaluation) {
    plateau = after_no_better_score(config, plateau);
    waited.push_back(plateau.waited);
    factors.push_back(schedule_factor(config, {.step = 10, .total = 100, .drops = plateau.drops}));
  }
  EXPECT_EQ(waited, (std::vector<int64_t>{1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(factors, (std::vector<double>{1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2}));
  EXPECT_EQ(plateau.drops, 3) << "at the floor nothing drops";
  EXPECT_EQ(schedule_factor(config, {.step = 2, .total = 100, .drops = 1}), 0.5) << "the warmup";
}

TEST(Schedule, TheRateDropsWhenEvaluationsNoLongerImprove) {
  auto config = learning_to_recall();
  config.train.max_steps = 12;
  config.train.evaluate_every = 1;
  config.train.min_delta = 2;  // more than an accuracy can rise
  config.train.optimizer.learning_rate = 1e-3;
  config.train.schedule = {.decay = Decay::plateau,
                           .warmup_steps = 4,
                           .floor = 0.2,
                           .gamma = 0.5,
                           .plateau_patience = 2};
  const auto folder = scratch();
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  run(config, folder);
  set_console({});
  const std::vector<double> want = {0.25, 0.5, 0.75, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2};
  const auto lines = metrics(folder, "train");
  ASSERT_EQ(lines.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(lines[i].at("learning_rate").get<double>(), 1e-3 * want[i], 1e-12) << i + 1;
  EXPECT_NE(written.find(": step 5: the learning rate drops, after 2 evaluations without a better "
                         "score\n"),
            std::string::npos)
      << written;
}

TEST(Schedule, ABetterScorePutsADropOff) {
  auto config = learning_to_recall();
  config.train.max_steps = 60;
  config.train.evaluate_every = 2;
  config.train.optimizer.learning_rate = 3e-3;
  config.train.schedule = {.decay = Decay::plateau, .gamma = 0.5, .plateau_patience = 3};
  const auto folder = scratch();
  run(config, folder);
  double best = -1, factor = 1;
  std::map<int64_t, double> factors;  // of the steps after an evaluation
  int64_t waited = 0;
  for (const auto& row : metrics(folder, "valid")) {
    const auto score = row.at("accuracy").get<double>();
    waited = score > best ? 0 : waited + 1;
    best = std::max(best, score);
    if (waited == 3) {
      factor /= 2;
      waited = 0;
    }
    factors[row.at("step").get<int64_t>() + 1] = factor;
  }
  for (const auto& row : metrics(folder, "train"))
    if (const auto found = factors.find(row.at("step").get<int64_t>()); found != factors.end())
      EXPECT_NEAR(row.at("learning_rate").get<double>(), 3e-3 * found->second, 1e-12)
          << found->first;
  EXPECT_LT(factor, 1) << "some drop";
}

TEST(Schedule, StableFallsInTheLastTenthUnlessToldOtherwise) {
  EXPECT_EQ(at_step(Decay::stable, 90), 1);
  EXPECT_NEAR(at_step(Decay::stable, 95, 0.2), 0.6, 1e-15);
  EXPECT_NEAR(at_step(Decay::stable, 100, 0.2), 0.2, 1e-15);
}

struct Published {
  size_t index;  // in the file
  const char* name;
  ScheduleConfig config;
  int64_t total;
  double peak = 0.5;
};

std::vector<Published> published() {
  ScheduleConfig three = {.decay = Decay::one_cycle}, straight = three;
  three.one_cycle = {.rising = 0.2, .start = 10, .end = 100, .cosine = false, .three_phases = true};
  straight.one_cycle.cosine = false;
  return {
      {0, "linear", {.decay = Decay::linear, .warmup_steps = 10}, 100},
      {1, "linear, no warm-up", {.decay = Decay::linear}, 80},
      {2, "constant with warm-up", {.decay = Decay::constant, .warmup_steps = 10}, 100},
      {3, "cosine", {.decay = Decay::cosine, .warmup_steps = 10}, 100},
      {4, "cosine, 1.5 cycles", {.decay = Decay::cosine, .warmup_steps = 10, .cycles = 1.5}, 100},
      {5,
       "cosine with restarts",
       {.decay = Decay::cosine_restarts, .warmup_steps = 10, .cycles = 3},
       100},
      {6, "inverse square root", {.decay = Decay::inverse_sqrt, .warmup_steps = 10}, 100},
      {7,
       "inverse square root, timescale",
       {.decay = Decay::inverse_sqrt, .warmup_steps = 10, .timescale = 25},
       100},
      {8,
       "polynomial",
       {.decay = Decay::polynomial, .warmup_steps = 10, .floor = 0.0001 / 0.5, .power = 2},
       100},
      {9,
       "polynomial, power 1",
       {.decay = Decay::polynomial, .warmup_steps = 10, .floor = 1e-7 / 0.5},
       85},
      {10,
       "get_wsd_schedule",
       {.decay = Decay::stable,
        .warmup_steps = 10,
        .warmup_start = 0.1,
        .floor = 0.1,
        .decay_steps = 20},
       70},
      {11,
       "get_cosine_with_min_lr_schedule_with_warmup",
       {.decay = Decay::cosine, .warmup_steps = 10, .floor = 0.2},
       100},
      {12, "StepLR", {.decay = Decay::step, .gamma = 0.5, .every = 13}, 100},
      {13,
       "MultiStepLR",
       {.decay = Decay::multi_step, .gamma = 0.3, .milestones = {5, 30, 31, 80}},
       100},
      {14, "ExponentialLR", {.decay = Decay::exponential, .gamma = 0.97}, 100},
      {15, "CosineAnnealingLR", {.decay = Decay::cosine, .floor = 0.02, .cycles = 1.25}, 100},
      {16,
       "CosineAnnealingWarmRestarts",
       {.decay = Decay::warm_restarts, .floor = 0.002, .decay_steps = 10, .growth = 2},
       100},
      {17, "CosineAnnealingWarmRestarts", {.decay = Decay::warm_restarts, .decay_steps = 15}, 100},
      {18, "OneCycleLR", straight, 100, 1.0},
      {19, "OneCycleLR", three, 100, 0.8},
      {20, "OneCycleLR", {.decay = Decay::one_cycle}, 100, 0.8},
      {21, "LinearLR", {.decay = Decay::constant, .warmup_steps = 20, .warmup_start = 0.1}, 100},
      {22, "PolynomialLR", {.decay = Decay::polynomial, .power = 1.7}, 60},
  };
}

// Of the schedules that repeat or drop, the first update is our step 1. The others count updates
// from 0, where a warm-up does nothing; ours leave that one out, and step t is theirs.
int64_t first_update(Decay decay) {
  return decay == Decay::step || decay == Decay::multi_step || decay == Decay::exponential ||
                 decay == Decay::warm_restarts || decay == Decay::one_cycle
             ? 0
             : 1;
}

TEST(Schedule, AgreesWithThePublishedRates) {
  const auto vectors = parity("formats/schedules.json");
  const auto& schedules = vectors.at("schedules");
  ASSERT_EQ(published().size(), schedules.size());
  for (const auto& [index, name, config, total, peak] : published()) {
    ASSERT_EQ(schedules.at(index).at("name"), name);
    const auto& rates = schedules.at(index).at("lr");
    const auto first = first_update(config.decay);
    for (int64_t update = first; update < static_cast<int64_t>(rates.size()); ++update)
      EXPECT_NEAR(peak * schedule_factor(config, {.step = update + 1 - first, .total = total}),
                  rates[static_cast<size_t>(update)].get<double>(), 1e-12)
          << name << " " << index << " at " << update;
  }
}

}  // namespace
}  // namespace longbow

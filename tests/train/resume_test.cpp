// A run goes on from its checkpoint with the same numbers, whatever moves its weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "longbow/core/console.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 12;

// Five batches an epoch, so that the checkpoint stands in the middle of one.
RunConfig tiny() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 40, valid: 16, test: 16, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1, init: xavier, block: {dropout: 0.2}}", "model");
  auto& train = config.train;
  train.max_steps = kSteps;
  train.sampler = {.batch_size = 8, .bucket = 3};
  train.loader.threads = 0;
  train.log_every = 1;
  train.evaluate_every = 4;
  train.optimizer.learning_rate = 3e-3;
  return config;
}

// As written: the norm of gradients that overflow is no number.
std::vector<nlohmann::json> column(const std::string& folder, const std::string& name) {
  std::vector<nlohmann::json> values;
  for (const auto& row : metrics(folder, "train")) values.push_back(row.at(name));
  return values;
}

// Trains, takes back what came after step 5 as if the run had been killed at step 9, resumes, and
// compares with a run that made no checkpoints. Returns the latter's folder.
std::string expect_exact_resume(RunConfig config) {
  const auto folder = scratch(), whole = folder + "/whole", broken = folder + "/broken";
  run(config, whole);
  config.train.checkpoint_every = 5;
  config.train.keep_checkpoints = 9;
  run(config, broken);
  for (const auto* gone : {"checkpoints/10", "checkpoints/12", "results.json"})
    EXPECT_GT(fs::remove_all(fs::path(broken) / gone), 0u) << gone;
  fs::rename(broken + "/model.safetensors", broken + "/best.safetensors");
  run(config, broken, true);
  for (const auto* name : {"loss", "learning_rate", "gradient_norm"})
    EXPECT_EQ(column(broken, name), column(whole, name)) << name;
  EXPECT_EQ(column(whole, "loss").size(), static_cast<size_t>(kSteps));
  for (const auto* split : {"valid", "test"})
    EXPECT_EQ(metrics(broken, split), metrics(whole, split)) << split;
  for (const auto* file : {"/model.safetensors", "/checkpoints/12/model.safetensors",
                           "/checkpoints/12/optimizer.safetensors"})
    EXPECT_TRUE(read_file(broken + file) == read_file(whole + file)) << file;
  return whole;
}

template <class Kind>
std::string called(Kind kind) {
  return std::string(names_of(kind)[static_cast<size_t>(kind)]);
}
template <class Kind>
std::vector<Kind> all_of() {
  std::vector<Kind> kinds;
  for (size_t i = 0; i < names_of(Kind()).size(); ++i) kinds.push_back(static_cast<Kind>(i));
  return kinds;
}

struct ResumeBySchedule : testing::TestWithParam<Decay> {};

TEST_P(ResumeBySchedule, TheRatesGoOn) {
  auto config = tiny();
  auto& schedule = config.train.schedule;
  schedule.decay = GetParam();
  schedule.warmup_steps = schedule.decay == Decay::one_cycle ? 0 : 3;
  schedule.cycles = 3;
  schedule.decay_steps = 4;
  schedule.growth = 2;
  schedule.milestones = {4, 7};
  schedule.every = 2;
  schedule.plateau_patience = 1;
  config.train.min_delta = 2;  // more than an accuracy can rise: a plateau after the first score
  schedule.count = schedule.decay == Decay::exponential ? Count::epochs : Count::steps;
  const auto rates = column(expect_exact_resume(config), "learning_rate");
  const auto [least, most] = std::minmax_element(rates.begin() + 5, rates.end());
  EXPECT_EQ(*least == *most, schedule.decay == Decay::constant) << "after the checkpoint";
}

INSTANTIATE_TEST_SUITE_P(All, ResumeBySchedule, testing::ValuesIn(all_of<Decay>()),
                         [](const auto& info) { return called(info.param); });

// The checkpoint of step 5 has dropped once and waited once: the next drop is two evaluations away.
TEST(Resume, APlateauGoesOnWaiting) {
  auto config = tiny();
  config.train.evaluate_every = 1;
  config.train.min_delta = 2;  // more than an accuracy can rise
  config.train.schedule = {.decay = Decay::plateau, .gamma = 0.5, .plateau_patience = 3};
  std::vector<double> halved;
  for (const auto& rate : column(expect_exact_resume(config), "learning_rate"))
    halved.push_back(std::round(std::log2(3e-3 / rate.get<double>())));
  EXPECT_EQ(halved, (std::vector<double>{0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3}));
}

struct ResumeByMethod : testing::TestWithParam<std::tuple<Method, Precision>> {};

TEST_P(ResumeByMethod, TheStateGoesOn) {
  auto config = tiny();
  auto& optimizer = config.train.optimizer;
  std::tie(optimizer.optimizer, config.train.precision) = GetParam();
  optimizer.amsgrad = true;
  optimizer.sgd = {.momentum = 0.9, .nesterov = true};
  optimizer.rmsprop = {.momentum = 0.9, .centered = true};
  optimizer.adafactor.beta1 = 0.9;
  optimizer.rate_decay = 0.1;
  config.train.average.ema = 0.9;
  config.train.accumulate = 2;
  const auto values = losses(expect_exact_resume(config));
  EXPECT_GT(std::abs(values.front() - values.back()), 1e-4) << "something was learnt";
}

INSTANTIATE_TEST_SUITE_P(All, ResumeByMethod,
                         testing::Combine(testing::ValuesIn(all_of<Method>()),
                                          testing::ValuesIn(all_of<Precision>())),
                         [](const auto& info) {
                           return called(std::get<0>(info.param)) + "_" +
                                  called(std::get<1>(info.param));
                         });

// Killed after step 8 was the best and before the next checkpoint, it goes on with another rate and
// never gets better: the weights are those of the best before.
TEST(Resume, TheBestWeightsOfADeadContinuationAreNotPublished) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.max_steps = 4;
  config.train.evaluate_every = 4;
  run(config, folder);
  const auto best = read_file(folder + "/model.safetensors");
  const auto dead = load_safetensors(folder + "/model.safetensors").tensors;
  Tensors other;
  for (const auto& [name, tensor] : dead) other[name] = at::zeros_like(tensor);
  save_safetensors(folder + "/best.safetensors", other, {{"format", "pt"}, {"step", "8"}});
  config.train.max_steps = 8;
  config.train.min_delta = 0;
  config.train.optimizer.learning_rate = 1e-12;
  const auto result = run(config, folder, true);
  EXPECT_EQ(result.best_step, 4);
  EXPECT_TRUE(read_file(folder + "/model.safetensors") == best);
}

// As a run of longbow 0.1.0 whose best weights were overwritten before it was killed.
TEST(Resume, BestWeightsThatAreLostAreChosenAgain) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.max_steps = 4;
  run(config, folder);
  auto checkpoint = *newest_checkpoint(folder);
  checkpoint.progressed.best_sha256 = "";
  save_checkpoint(folder, checkpoint.progressed, checkpoint.weights, checkpoint.optimizer, {});
  fs::remove(folder + "/model.safetensors");
  config.train.max_steps = 8;
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  const auto result = run(config, folder, true);
  set_console({});
  EXPECT_EQ(result.best_step, 8);
  EXPECT_NE(written.find("warning: " + folder +
                         ": the best weights, of step 4, are lost; the next evaluation chooses "
                         "again\n"),
            std::string::npos)
      << written;
}

// Planned for 12 steps and stopped after 5.
std::string stopped_at_five(RunConfig config) {
  config.train.checkpoint_every = 5;
  config.train.keep_checkpoints = 9;
  const auto folder = scratch();
  run(config, folder);
  for (const auto* gone : {"checkpoints/10", "checkpoints/12", "results.json", "model.safetensors"})
    EXPECT_GT(fs::remove_all(fs::path(folder) / gone), 0u) << gone;
  return folder;
}

std::vector<int> evaluated(const std::string& folder) {
  std::vector<int> steps;
  for (const auto& row : metrics(folder, "valid")) steps.push_back(row.at("step").get<int>());
  return steps;
}

TEST(Resume, ARunWhoseEndIsAlreadyReachedIsEvaluatedThere) {
  for (const bool by_time : {false, true}) {
    auto config = tiny();
    config.train.evaluate_every = 0;
    const auto folder = stopped_at_five(config);
    if (by_time)
      config.train.max_seconds = 1e-9;
    else
      config.train.max_steps = 3;
    const auto result = run(config, folder, true);
    EXPECT_EQ(result.status, "ok") << result.reason;
    EXPECT_EQ(result.steps, 5);
    EXPECT_EQ(result.best_step, 5);
    EXPECT_EQ(evaluated(folder), std::vector<int>{5});
    EXPECT_EQ(metrics(folder, "train").size(), 5u);
    EXPECT_TRUE(fs::exists(folder + "/model.safetensors"));
    const auto lines = read_file(folder + "/metrics.jsonl");
    EXPECT_EQ(run(config, folder, true).best_step, 5);
    EXPECT_EQ(read_file(folder + "/metrics.jsonl"), lines) << "it has been evaluated";
  }
}

TEST(Resume, StepsAfterTheLastEvaluationAreScoredWhereTheRunEnds) {
  auto config = tiny();
  config.train.evaluate_every = 2;
  config.train.optimizer.learning_rate = 1e-12;
  const auto folder = stopped_at_five(config);
  config.train.patience = 1;
  const auto result = run(config, folder, true);
  EXPECT_EQ(result.steps, 5);
  EXPECT_EQ(result.best_step, 2);
  EXPECT_EQ(evaluated(folder), (std::vector<int>{2, 4, 5}));
}

// Resumed, it made the evaluation, wrote its line and was killed before the next checkpoint.
TEST(Resume, AnEvaluationThatWasInterruptedIsALineOnce) {
  auto config = tiny();
  const auto folder = scratch(), whole = folder + "/whole", broken = folder + "/broken";
  run(config, whole);
  config.train.checkpoint_every = 4;
  config.train.keep_checkpoints = 9;
  run(config, broken);
  for (const auto* gone : {"checkpoints/8", "checkpoints/12", "results.json"})
    EXPECT_GT(fs::remove_all(fs::path(broken) / gone), 0u) << gone;
  auto checkpoint = *newest_checkpoint(broken);
  auto& before = checkpoint.progressed;
  ASSERT_EQ(before.step, 4);
  before.unevaluated = true;
  before.evaluated_step = before.best_step = before.stale = 0;
  before.best_sha256 = "";
  save_checkpoint(broken, before, checkpoint.weights, checkpoint.optimizer, {});
  run(config, broken, true);
  EXPECT_EQ(evaluated(broken), (std::vector<int>{4, 8, 12}));
  EXPECT_EQ(metrics(broken, "valid"), metrics(whole, "valid"));
}

// What the model remembers of the text is a part of the checkpoint.
TEST(Resume, WhatIsCarriedGoesOn) {
  const auto files = scratch() + "_text";
  fs::create_directories(files);
  std::string text;
  for (int64_t i = 0; i < 600; ++i)
    text += i % 20 < 19 ? static_cast<char>('a' + i * i * i % 11) : '\n';
  write_file(files + "/t.txt", text);
  auto config = read_run_config(parse_yaml(
      "{task: lines, data: {path: " + files + ", cache: " + files +
          "/cache, tokenizer: {train: characters}, lines: {train: t.txt, length: 13}}, "
          "model: {width: 16, layers: 2, init: xavier, positions: none, max_length: 1000, "
          "block: {dropout: 0.2}, attention: {name: compressive, memory: 20, slots: 5}}}",
      "run.yaml"));
  auto& train = config.train;
  train.max_steps = kSteps;
  train.sampler = {.batch_size = 6, .bucket = 1, .carry = true};
  train.loader.threads = 0;
  train.log_every = 1;
  train.evaluate_every = 4;
  train.optimizer.learning_rate = 3e-3;
  const auto whole = expect_exact_resume(config);
  const auto state =
      load_safetensors(whole + "/checkpoints/12/optimizer.safetensors").tensors.at("carry.seen");
  EXPECT_EQ(state.max().item<int64_t>(), 12 * 4) << "the second epoch began after eight steps";
}

}  // namespace
}  // namespace longbow

// A run goes on from its checkpoint with the same numbers, whatever moves its weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "longbow/tensors/safetensors.h"
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
  schedule.count = schedule.decay == Decay::exponential ? Count::epochs : Count::steps;
  const auto rates = column(expect_exact_resume(config), "learning_rate");
  const auto [least, most] = std::minmax_element(rates.begin() + 5, rates.end());
  EXPECT_EQ(*least == *most, schedule.decay == Decay::constant) << "after the checkpoint";
}

INSTANTIATE_TEST_SUITE_P(All, ResumeBySchedule, testing::ValuesIn(all_of<Decay>()),
                         [](const auto& info) { return called(info.param); });

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

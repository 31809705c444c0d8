#include "longbow/train/run/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "longbow/core/console.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/events.h"
#include "tests/support/tensor.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

RunConfig tiny() {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 96, valid: 24, test: 24, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1, init: xavier}", "model");
  config.train.max_steps = 12;
  config.train.sampler.batch_size = 8;
  config.train.sampler.bucket = 3;
  config.train.loader.threads = 0;
  config.train.log_every = 1;
  config.train.optimizer.learning_rate = 3e-3;
  return config;
}

TEST(Trainer, ATinyModelLearnsToRecall) {
  auto config = tiny();
  config.data.options["joint"] = Node::scalar("true");
  config.data.options["train"] = Node::scalar("1000");
  config.train.max_steps = 400;
  config.train.sampler.batch_size = 32;
  config.train.optimizer.learning_rate = 1e-2;
  config.train.log_every = 20;
  const auto folder = scratch();
  const auto result = run(config, folder);
  EXPECT_GT(losses(folder).front(), 1.0);
  EXPECT_LT(losses(folder).back(), 0.4);
  EXPECT_GT(result.score, 0.8) << "chance is a third";
}

TEST(Trainer, WritesWhatItDidAndHowItScored) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.evaluate_every = 5;
  const auto result = run(config, folder);
  EXPECT_EQ(metrics(folder, "train").size(), 12u);
  std::vector<int> evaluated;
  for (const auto& row : metrics(folder, "valid")) evaluated.push_back(row.at("step").get<int>());
  EXPECT_EQ(evaluated, (std::vector<int>{5, 10, 12}));
  ASSERT_EQ(metrics(folder, "test").size(), 1u);
  EXPECT_EQ(metrics(folder, "test")[0].at("accuracy").get<double>(), result.score);
  const auto results = json::parse(read_file(folder + "/results.json"));
  EXPECT_EQ(results.at("status"), "ok");
  EXPECT_EQ(results.at("mechanism"), "softmax");
  EXPECT_EQ(results.at("steps"), 12);
  EXPECT_GT(results.at("peak_bytes").get<double>(), 0);
  const auto model = json::parse(read_file(folder + "/config.json"));
  EXPECT_EQ(model.at("model_type"), "longbow_classifier");
  EXPECT_EQ(model.at("classes"), 3);
  EXPECT_EQ(model.at("vocabulary"), 1 + 6 + 3 + 1);
}

TEST(Trainer, TheWeightsAreThoseOfTheBestEvaluation) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.max_steps = 30;
  config.train.evaluate_every = 3;
  const auto result = run(config, folder);
  double best = -1;
  int64_t best_step = 0;
  for (const auto& row : metrics(folder, "valid"))
    if (row.at("accuracy").get<double>() > best) {
      best = row.at("accuracy").get<double>();
      best_step = row.at("step").get<int64_t>();
    }
  EXPECT_EQ(result.best_step, best_step);
  EXPECT_EQ(result.valid_score, best);
  const auto saved = load_safetensors(folder + "/model.safetensors");
  EXPECT_EQ(saved.metadata.at("step"), std::to_string(best_step));
  auto opened = open_run(folder, at::kCPU);
  const auto again = evaluate(*opened.task, *opened.task->splits().test, config.train.sampler);
  EXPECT_EQ(again.metrics.front().name, "accuracy");
  EXPECT_EQ(again.metrics.front().value, result.score);
}

TEST(Trainer, FourSmallBatchesAreOneLargeOne) {
  const auto folder = scratch();
  auto small = tiny(), large = tiny();
  small.train.sampler.shuffle = large.train.sampler.shuffle = false;
  small.train.sampler.batch_size = 4;
  small.train.accumulate = 4;
  large.train.sampler.batch_size = 16;
  run(small, folder + "/small");
  run(large, folder + "/large");
  const auto a = losses(folder + "/small"), b = losses(folder + "/large");
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << "step " << i + 1;
  const auto got = newest_checkpoint(folder + "/small"),
             want = newest_checkpoint(folder + "/large");
  for (const auto& [name, tensor] : want->weights) {
    // A softmax does not feel the bias of its keys: that gradient is rounding, which Adam enlarges.
    if (name.ends_with("key.bias")) continue;
    EXPECT_NEAR_TENSOR(got->weights.at(name), tensor, (Tolerance{1e-4, 1e-3})) << name;
  }
  EXPECT_GT(std::abs(a.front() - a.back()), 1e-3) << "something was learnt";
}

TEST(Trainer, AccumulatedTargetsOfDifferentNumberCountAlike) {
  auto small = tiny(), large = tiny();
  for (auto* config : {&small, &large}) {
    config->task = config->data.name = "listops";
    config->data.options =
        parse_yaml("{train: 6, valid: 4, test: 4, min_length: 3, max_length: 9}", "options");
    config->train.sampler = {.batch_size = 6, .bucket = 16, .shuffle = false};
    config->train.max_steps = 1;
  }
  small.train.sampler.batch_size = 4;  // batches of 4 and 2
  small.train.accumulate = 2;
  const auto folder = scratch();
  run(small, folder + "/small");
  run(large, folder + "/large");
  const auto a = metrics(folder + "/small", "train")[0], b = metrics(folder + "/large", "train")[0];
  EXPECT_NEAR(a.at("loss").get<double>(), b.at("loss").get<double>(), 1e-6);
  EXPECT_NEAR(a.at("gradient_norm").get<double>(), b.at("gradient_norm").get<double>(), 1e-5);
}

TEST(Trainer, StopsWhenEvaluationsNoLongerImprove) {
  auto config = tiny();
  config.train.max_steps = 200;
  config.train.evaluate_every = 1;
  config.train.patience = 3;
  config.train.log_every = 100;
  config.train.optimizer.learning_rate = 1e-12;
  const auto folder = scratch();
  const auto result = run(config, folder);
  EXPECT_EQ(result.best_step, 1);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(metrics(folder, "train").back().at("step"), 4);
}

TEST(Trainer, StopsWhenItsTimeIsOver) {
  auto config = tiny();
  config.train.max_steps = 100000;
  config.train.max_seconds = 0.05;
  config.train.log_every = 100000;
  const auto folder = scratch();
  const auto result = run(config, folder);
  EXPECT_LT(result.steps, 100000);
  EXPECT_GE(result.seconds, 0.05);
  EXPECT_EQ(metrics(folder, "train").back().at("step"), result.steps);
}

TEST(Trainer, StopsAfterItsEpochs) {
  auto config = tiny();  // 96 samples in batches of 8
  config.train.max_steps = 0;
  config.train.max_epochs = 1.5;
  EXPECT_EQ(run(config, scratch()).steps, 18);
  config.train.accumulate = 4;
  EXPECT_EQ(run(config, scratch()).steps, 5) << "18 batches are four steps and a half";
  config.train.max_steps = 3;
  EXPECT_EQ(run(config, scratch()).steps, 3);
}

TEST(Trainer, PatienceCountsOnlyWhatIsBetterByEnough) {
  auto config = tiny();
  config.train.max_steps = 40;
  config.train.evaluate_every = 1;
  config.train.patience = 30;
  const auto folder = scratch();
  EXPECT_GT(run(config, folder + "/any").best_step, 1);
  config.train.patience = 5;
  config.train.min_delta = 2;  // more than an accuracy can rise
  const auto result = run(config, folder + "/much");
  EXPECT_EQ(result.steps, 6);
  double best = 0;
  for (const auto& row : metrics(folder + "/much", "valid"))
    best = std::max(best, row.at("accuracy").get<double>());
  EXPECT_EQ(result.valid_score, best) << "the best weights are saved all the same";
}

TEST(Trainer, KeepsTheCheckpointsThatTheConfigNames) {
  auto config = tiny();
  config.train.evaluate_every = 1;
  config.train.checkpoint_every = 1;
  config.train.keep_checkpoints = 1;
  config.train.keep_every = 5;
  config.train.keep_best = true;
  const auto folder = scratch();
  const auto result = run(config, folder);
  std::set<int64_t> left, want = {5, 10, 12, result.best_step};
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints"))
    left.insert(std::stoll(entry.path().filename().string()));
  EXPECT_EQ(left, want);
  EXPECT_FALSE(result.best_step == 5 || result.best_step == 10 || result.best_step == 12)
      << "the best would be kept anyway; choose another seed";
}

// An average changes what is evaluated and saved, and nothing of the training.
TEST(Trainer, EvaluatesAndSavesTheAverageOfTheWeights) {
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    auto config = tiny();
    config.train.precision = precision;
    const auto folder = scratch();
    run(config, folder + "/plain");
    config.train.average.ema = 0.8;
    config.train.evaluate_every = 4;
    config.train.checkpoint_every = 1;
    config.train.keep_checkpoints = 99;
    const auto result = run(config, folder + "/averaged");
    EXPECT_EQ(losses(folder + "/averaged"), losses(folder + "/plain"));
    Tensor sum = at::zeros({}, at::kDouble);
    double shares = 0;
    for (int64_t step = 1; step <= result.best_step; ++step) {
      const auto file =
          folder + "/averaged/checkpoints/" + std::to_string(step) + "/model.safetensors";
      sum = 0.8 * sum + load_safetensors(file).tensors.at("output.weight").to(at::kDouble);
      shares = 0.8 * shares + 1;
    }
    const auto saved = load_safetensors(folder + "/averaged/model.safetensors");
    EXPECT_NEAR_TENSOR(saved.tensors.at("output.weight").to(at::kDouble), sum / shares,
                       (Tolerance{1e-6, 1e-5}));
    EXPECT_EQ(saved.metadata.at("step"), std::to_string(result.best_step));
    EXPECT_EQ(result.valid_score, metrics(folder + "/averaged", "valid")
                                      .at(static_cast<size_t>(result.best_step / 4 - 1))
                                      .at("accuracy")
                                      .get<double>());
  }
}

// Every number of metrics.jsonl stands in the event file, in the same order.
void expect_same_events(const std::string& folder) {
  std::vector<std::pair<std::string, float>> want, got;
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::ordered_json::parse(line);
    for (const auto& [name, value] : row.items())
      if (name != "step" && name != "split")
        want.emplace_back(row.at("split").get<std::string>() + "/" + name,
                          static_cast<float>(value.get<double>()));
  }
  int texts = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    for (const auto& event : parse_events(read_file(entry.path().string())))
      if (!event.strings.empty())
        texts += event.strings[0] == "```yaml\n" + read_file(folder + "/config.yaml") + "```";
      else if (event.version.empty())
        got.emplace_back(event.tag, event.value);
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(texts, 1);
}

TEST(Trainer, WritesEveryNumberForTensorBoardToo) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.evaluate_every = 5;
  config.train.checkpoint_every = 5;
  config.train.keep_checkpoints = 9;
  run(config, folder);
  expect_same_events(folder);
  fs::remove_all(folder + "/checkpoints/12");
  fs::remove_all(folder + "/checkpoints/10");
  run(config, folder, true);
  expect_same_events(folder);
}

TEST(Trainer, AnAnomalyIsNamedWithItsStep) {
  auto config = tiny();
  config.train.anomaly = true;
  const auto fine = scratch();
  EXPECT_EQ(error_of([&] { run(config, fine); }), "");
  config.train.optimizer.learning_rate = 1e30;
  config.train.optimizer.clip = 0;
  config.train.schedule.decay = Decay::constant;
  const auto message = error_of([&] { run(config, scratch()); });
  EXPECT_TRUE(message.starts_with("step 2: the loss is ")) << message;
  EXPECT_NE(message.find("; the first output that is not finite is that of encoder."),
            std::string::npos)
      << message;
}

TEST(Trainer, ALossThatIsNoNumberEndsTheRunWithAHint) {
  auto config = tiny();
  config.train.optimizer.learning_rate = 1e30;
  config.train.schedule.decay = Decay::constant;
  const auto message = error_of([&] { run(config, scratch()); });
  EXPECT_TRUE(message.starts_with("the loss is ")) << message;
  EXPECT_NE(message.find("; lower train.learning_rate"), std::string::npos) << message;
}

TEST(Trainer, HalfPrecisionLearns) {
  for (const auto precision : {Precision::bf16, Precision::fp16}) {
    const auto folder = scratch();
    auto config = tiny();
    run(config, folder + "/exact");
    config.train.precision = precision;
    run(config, folder + "/half");
    const auto exact = losses(folder + "/exact"), half = losses(folder + "/half");
    EXPECT_NE(half, exact);
    EXPECT_NEAR(half.front(), exact.front(), 0.01);
    // With fp16 the first steps overflow and are skipped until the loss scale fits.
    for (size_t i = 0; precision == Precision::bf16 && i < exact.size(); ++i)
      EXPECT_NEAR(half[i], exact[i], 0.02) << i;
    EXPECT_LT(*std::min_element(half.begin(), half.end()), half.front() - 0.02);
    for (const auto& [name, tensor] : load_safetensors(folder + "/half/model.safetensors").tensors)
      EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
  }
}

TEST(Trainer, AHalfWrittenLineOfMetricsIsDroppedOnResume) {
  const auto folder = scratch();
  const auto config = tiny();
  run(config, folder);
  const auto whole = read_file(folder + "/metrics.jsonl");
  append_line(folder + "/metrics.jsonl", "{\"step\": 12, \"spl");
  run(config, folder, true);
  EXPECT_EQ(read_file(folder + "/metrics.jsonl"), whole);
}

TEST(Trainer, AFolderWithARunIsNotOverwritten) {
  const auto folder = scratch();
  run(tiny(), folder);
  EXPECT_EQ(error_of([&] { run(tiny(), folder); }),
            folder + ": holds a run already; continue it with --resume, or choose another --out");
}

TEST(Trainer, ResumesOnlyTheRunThatItFinds) {
  const auto folder = scratch();
  auto config = tiny();
  run(config, folder);
  config.train.loader.threads = 2;
  EXPECT_EQ(error_of([&] { run(config, folder, true); }), "");
  config.seed = 7;
  const auto message = error_of([&] { run(config, folder, true); });
  EXPECT_EQ(message.find(folder + "/config.yaml:"), 0u) << message;
  EXPECT_NE(message.find(": seed is not that of the run to resume; take the run's own config, or "
                         "choose another --out"),
            std::string::npos)
      << message;
}

TEST(Trainer, ARefusedResumeWritesNothing) {
  const auto folder = scratch();
  auto config = tiny();
  run(config, folder);
  const auto before = read_file(folder + "/config.yaml");
  config.train.log_every = 2;
  config.train.optimizer.optimizer = Method::sgd;
  EXPECT_NE(error_of([&] { run(config, folder, true); })
                .find(": train.optimizer is not that of the run to resume; take the run's own "
                      "config, or choose another --out"),
            std::string::npos);
  EXPECT_EQ(read_file(folder + "/config.yaml"), before);
  auto checkpoint = *newest_checkpoint(folder);
  checkpoint.optimizer["output.weight.mean"] = at::zeros({1});
  checkpoint.progressed.best_sha256 = "";
  save_checkpoint(folder, checkpoint.progressed, checkpoint.weights, checkpoint.optimizer, {});
  config.train.optimizer.optimizer = Method::adamw;
  EXPECT_EQ(error_of([&] { run(config, folder, true); }),
            "optimizer state output.weight.mean is [1] instead of [3, 16]");
  EXPECT_EQ(read_file(folder + "/config.yaml"), before);
}

TEST(Trainer, AScoreThatIsNotFiniteNeverWins) {
  const auto folder = scratch();
  auto config = tiny();
  config.task = config.data.name = "markov";
  config.objective = "causal_lm";
  config.data.options = parse_yaml("{train: 64, valid: 16, test: 16}", "options");
  config.train.max_steps = 2;
  config.train.evaluate_every = 1;
  run(config, folder);
  const auto best = read_file(folder + "/model.safetensors");
  config.train.max_steps = 3;
  config.train.optimizer.learning_rate = 1000;
  config.train.schedule.decay = Decay::constant;
  const auto result = run(config, folder, true);
  const auto rows = metrics(folder, "valid");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows.back().at("perplexity").is_null()) << rows.back();
  EXPECT_LE(result.best_step, 2);
  EXPECT_EQ(result.status, "ok");
  EXPECT_TRUE(read_file(folder + "/model.safetensors") == best);
  EXPECT_EQ(newest_checkpoint(folder)->progressed.best_step, result.best_step);
}

TEST(Trainer, WeightsThatAreNotFiniteAreNotSaved) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.max_steps = 2;
  run(config, folder);
  config.train.max_steps = 9;
  config.train.checkpoint_every = 1;
  config.train.log_every = 100;
  config.train.optimizer.learning_rate = 3e38;
  config.train.optimizer.weight_decay = 1e4;  // their product is no float
  EXPECT_EQ(error_of([&] { run(config, folder, true); }),
            "the weights are not finite at step 3; lower train.learning_rate");
  EXPECT_EQ(newest_checkpoint(folder)->progressed.step, 2);
}

TEST(Trainer, ADamagedCheckpointIsPassedOverAndTheRunEndsTheSame) {
  const auto folder = scratch();
  auto config = tiny();
  config.train.checkpoint_every = 4;
  config.train.evaluate_every = 3;
  run(config, folder + "/whole");
  config.train.keep_checkpoints = 3;
  run(config, folder + "/damaged");
  const auto file = folder + "/damaged/checkpoints/12/model.safetensors";
  auto bytes = read_file(file);
  bytes.back() ^= 1;
  write_file(file, bytes);
  run(config, folder + "/damaged", true);
  EXPECT_EQ(losses(folder + "/damaged"), losses(folder + "/whole"));
  for (const auto* name : {"/model.safetensors", "/checkpoints/12/model.safetensors"})
    EXPECT_TRUE(read_file(folder + "/damaged" + name) == read_file(folder + "/whole" + name))
        << name;
}

TEST(Trainer, WhatAKilledProcessLeftIsRemovedOnResume) {
  const auto folder = scratch();
  const auto config = tiny();
  run(config, folder);
  write_file(folder + "/config.yaml.77-3.tmp", "x");
  fs::create_directories(folder + "/checkpoints/draft");
  write_file(folder + "/checkpoints/draft/model.safetensors", "x");
  run(config, folder, true);
  EXPECT_FALSE(fs::exists(folder + "/config.yaml.77-3.tmp"));
  EXPECT_FALSE(fs::exists(folder + "/checkpoints/draft"));
  EXPECT_FALSE(fs::exists(folder + "/best.safetensors"));
}

TEST(Trainer, EveryEvaluationIsALine) {
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  auto config = tiny();
  config.train.max_steps = 2;
  config.train.evaluate_every = 1;
  config.train.optimizer.learning_rate = 1e-12;
  run(config, scratch());
  set_console({});
  EXPECT_NE(written.find("train: step 1: valid accuracy "), std::string::npos) << written;
  EXPECT_NE(written.find(" (the best so far)\n"), std::string::npos) << written;
  EXPECT_NE(written.find("train: step 2: valid accuracy "), std::string::npos) << written;
  EXPECT_NE(written.find(" at step 1)\n"), std::string::npos) << written;
}

}  // namespace
}  // namespace longbow

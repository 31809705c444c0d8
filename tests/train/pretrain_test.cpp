#include "longbow/train/run/pretrain.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/run_task.h"
#include "longbow/train/run/train.h"
#include "tests/support/tensor.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

RunConfig tiny(const std::string& objective) {
  RunConfig config = {.task = "recall", .objective = "classification"};
  config.data.name = "recall";
  config.data.options = parse_yaml(
      "{train: 64, valid: 16, test: 16, keys: 6, values: 3, pairs: 3, queries: 3}", "options");
  config.model = parse_yaml("{width: 16, layers: 1, init: xavier, head: 4}", "model");
  config.train.max_steps = 6;
  config.train.sampler = {.batch_size = 8, .bucket = 3};
  config.train.loader.threads = 0;
  config.train.log_every = 1;
  config.pretrain.objective = objective;
  config.pretrain.max_steps = 5;
  config.pretrain.learning_rate = 1e-2;
  return config;
}

void run(const RunConfig& config, const std::string& out, bool resume = false) {
  train(config, {.out = out, .resume = resume, .progress = ProgressStyle::off});
}

TEST(Pretrain, IsTheSameRunWithAnotherObjective) {
  auto config = tiny("masked_lm");
  config.pretrain.model = parse_yaml("{masking: {fraction: 0.3}, layers: 1}", "model");
  const auto first = pretraining_of(config);
  EXPECT_EQ(first.objective, "masked_lm");
  EXPECT_EQ(first.train.max_steps, 5);
  EXPECT_EQ(first.train.optimizer.learning_rate, 1e-2);
  EXPECT_EQ(first.train.sampler.batch_size, 8);
  config.train.sampler.batch_tokens = 512;
  EXPECT_EQ(pretraining_of(config).train.sampler.batch_tokens, 512);
  config.pretrain.batch_size = 4;
  EXPECT_EQ(pretraining_of(config).train.sampler.batch_tokens, 0) << "its own size counts";
  config.pretrain.batch_tokens = 64;
  EXPECT_EQ(pretraining_of(config).train.sampler.batch_tokens, 64);
  config.train.max_epochs = 2;
  EXPECT_EQ(pretraining_of(config).train.max_epochs, 0) << "its own steps count";
  config.pretrain.max_steps.reset();
  EXPECT_EQ(pretraining_of(config).train.max_epochs, 2);
  EXPECT_EQ(first.seed, config.seed);
  EXPECT_EQ(to_json(first.model),
            R"({"width":16,"layers":1,"init":"xavier","masking":{"fraction":0.3}})");
  EXPECT_TRUE(first.pretrain.objective.empty());
  EXPECT_EQ(pretraining_of(tiny("causal_lm")).model.find("causal")->text, "true");
}

TEST(Pretrain, TheTaskStartsFromTheWeightsLearntBefore) {
  for (const auto* objective : {"masked_lm", "causal_lm", "replaced_tokens"}) {
    const auto folder = scratch();
    auto config = tiny(objective);
    config.train.max_steps = 1;
    config.train.optimizer.learning_rate = 1e-30;  // what it starts from is what it ends with
    config.train.optimizer.weight_decay = 0;
    run(config, folder);
    const auto learnt = load_safetensors(folder + "/pretrain/model.safetensors").tensors,
               used = load_safetensors(folder + "/model.safetensors").tensors;
    auto task = make_task(config, at::kCPU);
    int64_t moved = 0;
    for (const auto& [name, fresh] : weights_of(task->model())) {
      if (!name.starts_with("encoder.")) {
        EXPECT_NEAR_TENSOR(used.at(name), fresh, kExact) << name;
        continue;
      }
      EXPECT_NEAR_TENSOR(used.at(name), learnt.at(name).narrow(0, 0, fresh.size(0)), kExact)
          << name;
      moved += !at::equal(used.at(name), fresh);
    }
    EXPECT_GT(moved, 10) << "five steps change nearly every tensor";
    EXPECT_TRUE(fs::exists(folder + "/pretrain/results.json"));
    EXPECT_TRUE(fs::exists(folder + "/results.json"));
  }
}

TEST(Pretrain, GoesOnWhereverItWasKilled) {
  auto config = tiny("masked_lm");
  config.model["block"]["dropout"] = Node::number(0.2);
  config.train.checkpoint_every = config.pretrain.checkpoint_every.emplace(2);
  config.train.keep_checkpoints = 9;
  const auto folder = scratch();
  run(config, folder + "/whole");
  const auto expect_same = [&](const std::string& broken) {
    run(config, folder + broken, true);
    for (const auto* file : {"/model.safetensors", "/pretrain/model.safetensors"})
      EXPECT_EQ(read_file(folder + broken + file), read_file(folder + "/whole" + file)) << broken;
  };
  const auto copied = [&](const std::string& name) {
    fs::copy(folder + "/whole", folder + name, fs::copy_options::recursive);
    return folder + name;
  };
  // In the pretraining: nothing of the task is there yet.
  auto broken = copied("/early");
  for (const auto* gone : {"checkpoints", "metrics.jsonl", "config.yaml", "model.safetensors",
                           "results.json", "pretrain/checkpoints/4", "pretrain/checkpoints/5",
                           "pretrain/model.safetensors", "pretrain/results.json"})
    fs::remove_all(fs::path(broken) / gone);
  expect_same("/early");
  // Between the two.
  broken = copied("/between");
  for (const auto* gone : {"checkpoints", "metrics.jsonl", "model.safetensors", "results.json"})
    fs::remove_all(fs::path(broken) / gone);
  expect_same("/between");
  // In the task: the pretraining is not looked at again.
  broken = copied("/late");
  for (const auto* gone : {"checkpoints/4", "checkpoints/6", "results.json"})
    fs::remove_all(fs::path(broken) / gone);
  expect_same("/late");
}

TEST(Pretrain, ItsStepsAreNotCutByTheEpochsOfTheTask) {
  const auto folder = scratch();
  auto config = tiny("masked_lm");  // 64 samples in batches of 8
  config.train.max_steps = 0;
  config.train.max_epochs = 0.25;
  run(config, folder);
  EXPECT_EQ(read_result(folder + "/pretrain").steps, 5);
  EXPECT_EQ(read_result(folder).steps, 2);
}

// Killed between the two, and resumed otherwise: what was learnt before is not of this run.
TEST(Pretrain, IsResumedOnlyAsItWas) {
  const auto folder = scratch();
  const auto config = tiny("masked_lm");
  const auto refused = [&](const RunConfig& other) {
    return error_of([&] { run(other, folder, true); });
  };
  run(config, folder);
  for (const auto* gone : {"checkpoints", "metrics.jsonl", "model.safetensors", "results.json"})
    fs::remove_all(fs::path(folder) / gone);
  const auto before = read_file(folder + "/config.yaml");
  auto other = config;
  other.seed = 2;
  EXPECT_TRUE(refused(other).starts_with(folder + "/pretrain/config.yaml:")) << refused(other);
  EXPECT_NE(refused(other).find(": seed is not that of the run to resume; take the run's own "
                                "config, or choose another --out"),
            std::string::npos)
      << refused(other);
  other = config;
  other.data.seed = 9;
  EXPECT_NE(refused(other).find(": data is not that of the run to resume; "), std::string::npos)
      << refused(other);
  EXPECT_EQ(read_file(folder + "/config.yaml"), before);
  other = config;
  other.pretrain.max_steps = 8;
  EXPECT_EQ(refused(other), "");
  EXPECT_EQ(read_result(folder + "/pretrain").steps, 8) << "it may be longer, as any run";
}

TEST(Pretrain, DoesNotTouchAFolderThatHoldsARun) {
  const auto folder = scratch();
  auto config = tiny("");
  run(config, folder);
  config.pretrain.objective = "masked_lm";
  EXPECT_EQ(error_of([&] { run(config, folder); }),
            folder + ": holds a run already; continue it with --resume, or choose another --out");
  EXPECT_FALSE(fs::exists(folder + "/pretrain"));
}

TEST(Pretrain, IsCheckedBeforeAnyDataIsOpened) {
  const auto error = [](const std::string& pretrain, const std::string& model = "{}") {
    return error_of([&] {
      read_run_config(
          parse_yaml("task: recall\nmodel: " + model + "\npretrain: " + pretrain, "run.yaml"));
    });
  };
  EXPECT_EQ(error("{objective: masked_lm, max_steps: 5}"), "");
  EXPECT_EQ(error("{objective: maskd_lm}"),
            "run.yaml:3: 'maskd_lm' does not pretrain; did you mean 'masked_lm'?");
  EXPECT_EQ(error("{objective: masked_lm, model: {masking: {fracton: 1}}}"),
            "run.yaml:3: unknown key 'fracton'; did you mean 'fraction'?");
  EXPECT_TRUE(error("{objective: causal_lm}", "{attention: fnet}")
                  .starts_with("run.yaml:2: fnet is not causal; mechanisms that are: "));
}

TEST(Pretrain, AnEncoderThatCannotTakeItsWeightsIsRefusedBeforeAnyDataIsOpened) {
  const auto error = [](const std::string& run, const std::string& more = "") {
    return error_of([&] {
      read_run_config(parse_yaml(run + "\npretrain:\n  objective: masked_lm\n" + more, "run.yaml"));
    });
  };
  for (const auto* objective : {"characters", "perceiver", "perceiver_ar"}) {
    auto tree = parse_yaml(find_objective(objective).recipe.config, "run.yaml");
    tree["pretrain"] = parse_yaml("\n\n\n\n\n\n{objective: masked_lm}", "run.yaml");
    EXPECT_EQ(error_of([&] { read_run_config(tree); }),
              std::string("run.yaml:7: ") + objective +
                  " has no encoder that masked_lm could pretrain; leave pretrain out, or take "
                  "another objective: causal_lm, classification, masked_lm, pairs, regression, "
                  "replaced_tokens, span, tagging, translation");
  }
  const std::string recall = "task: recall\nmodel: {width: 32}";
  EXPECT_EQ(error(recall), "");
  EXPECT_EQ(error("task: reverse\nmodel: {width: 32, heads: 4}"), "");
  EXPECT_EQ(error(recall, "  model: {width: 32, layers: 1}"), "");
  EXPECT_EQ(error(recall, "  model:\n    width: 16"),
            "run.yaml:6: pretrain.model.width is 16, but the encoder of the run has 32; leave it "
            "out");
}

TEST(Pretrain, TheEncoderOfATranslationIsPretrained) {
  const auto config = read_run_config(parse_yaml(
      "{task: reverse, data: {reverse: {train: 64, valid: 16, test: 16}}, "
      "model: {width: 32, heads: 4, layers: 1, init: xavier}, "
      "train: {max_steps: 1, batch_size: 8, learning_rate: 1e-30, weight_decay: 0, threads: 0}, "
      "pretrain: {objective: masked_lm, max_steps: 3, learning_rate: 1e-2}}",
      "run.yaml"));
  const auto folder = scratch();
  run(config, folder);
  const auto learnt = load_safetensors(folder + "/pretrain/model.safetensors").tensors;
  int64_t moved = 0;
  for (const auto& [name, used] : load_safetensors(folder + "/model.safetensors").tensors)
    if (name.starts_with("encoder.")) {
      const auto& before = learnt.at(name);
      const auto rows = std::min(used.size(0), before.size(0));
      EXPECT_NEAR_TENSOR(used.narrow(0, 0, rows), before.narrow(0, 0, rows), kExact) << name;
      ++moved;
    }
  EXPECT_GT(moved, 10);
}

TEST(Pretrain, IsWrittenAndReadWithTheConfig) {
  const auto config = tiny("masked_lm");
  const auto again = read<RunConfig>(written(config));
  EXPECT_EQ(again.pretrain.max_steps, 5);
  EXPECT_FALSE(again.pretrain.batch_size.has_value());
  EXPECT_EQ(to_yaml(written(again)), to_yaml(written(config)));
}

TEST(Pretrain, WithoutAFiniteScoreItEndsTheRun) {
  const auto folder = scratch();
  auto config = tiny("causal_lm");
  config.pretrain.max_steps = 1;
  config.pretrain.learning_rate = 1000;
  config.train.schedule.decay = Decay::constant;
  for (const bool resume : {false, true})
    EXPECT_EQ(error_of([&] { run(config, folder, resume); }),
              "pretraining: no evaluation on valid gave a finite perplexity");
  EXPECT_TRUE(fs::exists(folder + "/config.yaml")) << "a resume needs no other config";
}

}  // namespace
}  // namespace longbow

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

constexpr int kSteps = 240;  // max_steps of kTinyRecall

TEST(TrainCommand, FillsARunFolderAndPrintsItsPathLast) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  const auto outcome = here.run(training("run", {"--set", "train.max_steps=9"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).back(), "run");
  for (const auto* file :
       {"config.yaml", "config.json", "metrics.jsonl", "model.safetensors", "results.json",
        "checkpoints/7/optimizer.safetensors", "checkpoints/9/trainer.json"})
    EXPECT_TRUE(here.has(std::string("run/") + file)) << file;
  const auto first = json::parse(lines_of(here.read("run/metrics.jsonl")).front());
  EXPECT_EQ(first.at("step"), 1);
  EXPECT_EQ(first.at("split"), "train");
  EXPECT_GT(first.at("loss").get<double>(), 0);
  const auto again = here.run(training("run"));
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(again.err,
            "longbow: run: holds a run already; continue it with --resume, or choose another "
            "--out\n");
}

TEST(TrainCommand, ADryRunShowsTheModelAndLeavesNothingBehind) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  const auto outcome = here.run({"train", "run.yaml", "--dry-run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const auto* part : {"encoder.layers.0.mixer.query.weight", "\ntotal ", "\nmemory ",
                           ": weights ", ", activations ", "\none step on "})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  for (const auto& entry : std::filesystem::directory_iterator(here.folder())) {
    const auto name = entry.path().filename().string();
    EXPECT_TRUE(name == "run.yaml" || name.starts_with(".std")) << name;
  }
}

TEST(TrainCommand, TheWrittenConfigTrainsTheSameModelAgain) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("first", {"--set", "train.max_steps=9", "--seed", "3"})).code, 0);
  const auto again =
      here.run({"train", "first/config.yaml", "--out", "second", "--progress", "off"});
  ASSERT_EQ(again.code, 0) << again.err;
  expect_same_run(here, "second", "first");
  EXPECT_EQ(here.read("first/config.yaml"), here.read("second/config.yaml"));
}

TEST(TrainCommand, TheNumberOfLoaderThreadsChangesNothing) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("none", {"--set", "train.threads=0"})).code, 0);
  ASSERT_EQ(here.run(training("three", {"--set", "train.threads=3"})).code, 0);
  expect_same_run(here, "three", "none");
}

TEST(TrainCommand, ResumedWithOtherLoaderThreadsItWritesTheSameLosses) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("whole", {"--set", "train.threads=0"})).code, 0);
  Running program(here.folder(), training("killed", {"--set", "train.threads=3"}));
  ASSERT_TRUE(program.wait_until([&] { return last_step(here, "killed") >= 30; }));
  program.signal(SIGKILL);
  ASSERT_EQ(program.finish().code, -SIGKILL);
  ASSERT_EQ(here.run(training("killed", {"--resume", "--set", "train.threads=0"})).code, 0);
  expect_same_run(here, "killed", "whole");
}

void expect_saved_on(int signal, const std::string& run, const Workspace& here) {
  Running program(here.folder(), training(run));
  ASSERT_TRUE(program.wait_until([&] { return last_step(here, run) >= 20; }));
  program.signal(signal);
  const auto stopped = program.finish();
  EXPECT_EQ(stopped.code, 128 + signal);
  EXPECT_EQ(lines_of(stopped.err).back(),
            "longbow: interrupted; everything is saved, --resume continues");
  const int step = last_step(here, run);
  EXPECT_LT(step, kSteps);
  EXPECT_TRUE(here.has(run + "/checkpoints/" + std::to_string(step) + "/trainer.json"));
  ASSERT_EQ(here.run(training(run, {"--resume"})).code, 0);
  expect_same_run(here, run, "whole");
}

TEST(TrainCommand, SavesOnSigintAndSigtermAndGoesOn) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("whole")).code, 0);
  expect_saved_on(SIGINT, "interrupted", here);
  expect_saved_on(SIGTERM, "terminated", here);
}

TEST(TrainCommand, ResumingAFinishedRunChangesNothing) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("run", {"--set", "train.max_steps=9"})).code, 0);
  const auto metrics_before = here.read("run/metrics.jsonl");
  const auto results_before = here.read("run/results.json");
  ASSERT_EQ(here.run(training("run", {"--set", "train.max_steps=9", "--resume"})).code, 0);
  EXPECT_EQ(here.read("run/metrics.jsonl"), metrics_before);
  EXPECT_EQ(here.read("run/results.json"), results_before);
}

TEST(EvalCommand, ScoresAFinishedRunAsItsTrainingDid) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("run", {"--set", "train.max_steps=30"})).code, 0);
  const auto results = json::parse(here.read("run/results.json"));
  const auto test = json::parse(here.run({"eval", "run", "--json"}).out);
  EXPECT_EQ(test.at("split"), "test");
  EXPECT_EQ(test.at("count"), 24 * 4);
  EXPECT_EQ(test.at("accuracy"), results.at("score"));
  const auto valid = json::parse(here.run({"eval", "run", "--split", "valid", "--json"}).out);
  EXPECT_EQ(valid.at("accuracy"), results.at("valid_score"));
  EXPECT_TRUE(here.run({"eval", "run"}).out.starts_with("test: accuracy "));
}

TEST(EvalCommand, FindsDataThatTheConfigNamedByARelativePath) {
  const Workspace here;
  ASSERT_EQ(here.run({"data", "make", "recall", "--out", "configs/data", "--count", "100", "--set",
                      "keys=8", "--set", "pairs=4", "--set", "queries=4"})
                .code,
            0);
  here.write("configs/run.yaml",
             "task: recall\ndata: {path: data}\nmodel: {width: 16, layers: 1}\n"
             "train: {max_steps: 2, batch_size: 8, bucket: 4}\n");
  const auto trained = here.run({"train", "configs/run.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto scored = here.run({"eval", "run"});
  EXPECT_EQ(scored.code, 0) << scored.err;
}

TEST(EvalCommand, WantsAFinishedRun) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("run", {"--set", "train.max_steps=9"})).code, 0);
  std::filesystem::remove(here.path("run/model.safetensors"));
  const auto outcome = here.run({"eval", "run"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "longbow: run: holds no finished run: model.safetensors is missing; finish it with "
            "`longbow train --resume`\n");
}

}  // namespace
}  // namespace longbow::cli

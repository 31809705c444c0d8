#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
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

TEST(TrainCommand, OneOfSeveralProcessesIsRefused) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  setenv("WORLD_SIZE", "4", 1);
  const auto refused = here.run(training("run"));
  setenv("WORLD_SIZE", "1", 1);
  const auto alone = here.run(training("run", {"--dry-run"}));
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "longbow: WORLD_SIZE is 4, but a run is one process; start it once, without torchrun; "
            "`longbow arena --jobs` trains several runs side by side\n");
  EXPECT_FALSE(here.has("run"));
  EXPECT_EQ(alone.code, 0) << alone.err;
}

// A config that lies where the run would write its own, and a model that was imported there.
TEST(TrainCommand, FilesOfOthersAreNotReplaced) {
  const Workspace here;
  here.write("config.yaml", "# my notes\n" + kTinyRecall);
  here.write("config.json", "{\"mine\": 1}");
  for (const Arguments& more : {Arguments{}, Arguments{"--resume"}}) {
    Arguments words = {"train", "config.yaml", "--out", ".", "--progress", "off"};
    words.insert(words.end(), more.begin(), more.end());
    const auto refused = here.run(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err,
              "longbow: ./config.yaml: is there already, and is not of a run that could go on; "
              "choose another --out\n");
  }
  EXPECT_EQ(here.read("config.yaml"), "# my notes\n" + kTinyRecall);
  EXPECT_EQ(here.read("config.json"), "{\"mine\": 1}");
  std::filesystem::create_directories(here.path("bert"));
  here.write("bert/model.safetensors", "weights");
  here.write("run.yaml", kTinyRecall);
  const auto model = here.run(training("bert"));
  EXPECT_EQ(model.code, 2);
  EXPECT_EQ(model.err,
            "longbow: bert/model.safetensors: is there already, and is not of a run that could go "
            "on; choose another --out\n");
  EXPECT_EQ(here.read("bert/model.safetensors"), "weights");
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

std::string continuing(const std::string& run) {
  return "longbow: interrupted; everything is saved, continue with: longbow train " + run +
         " --resume";
}

// By the very words of the message.
void expect_continues(const Workspace& here, const std::string& run) {
  const auto outcome = here.run({"train", run, "--resume"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_same_run(here, run, "whole");
}

void expect_saved_on(int signal, const std::string& run, const Workspace& here) {
  Running program(here.folder(), training(run));
  ASSERT_TRUE(program.wait_until([&] { return last_step(here, run) >= 20; }));
  program.signal(signal);
  const auto stopped = program.finish();
  EXPECT_EQ(stopped.code, 128 + signal);
  EXPECT_EQ(lines_of(stopped.err).back(), continuing(run));
  const std::string answer = signal == SIGINT
                                 ? "interrupted: stopping once everything is saved; press Ctrl-C "
                                   "again to stop at once\n"
                                 : "asked to end: stopping once everything is saved\n";
  EXPECT_NE(stopped.err.find(answer), std::string::npos) << stopped.err;
  const int step = last_step(here, run);
  EXPECT_LT(step, kSteps);
  EXPECT_TRUE(here.has(run + "/checkpoints/" + std::to_string(step) + "/trainer.json"));
  expect_continues(here, run);
}

TEST(TrainCommand, SavesOnASignalAndGoesOn) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("whole")).code, 0);
  expect_saved_on(SIGINT, "interrupted", here);
  expect_saved_on(SIGTERM, "terminated", here);
  expect_saved_on(SIGHUP, "hung_up", here);
}

TEST(TrainCommand, TheCommandThatContinuesKeepsTheNumberOfThreads) {
  const Workspace here;
  here.write("run.yaml", replaced(kTinyRecall, "max_steps: 240", "max_steps: 100000"));
  Running program(here.folder(), training("run", {"--threads", "2"}));
  ASSERT_TRUE(program.wait_until([&] { return last_step(here, "run") >= 5; }));
  program.signal(SIGINT);
  EXPECT_EQ(lines_of(program.finish().err).back(), continuing("run") + " --threads 2");
}

TEST(TrainCommand, TheTimeThatIsLeftEndsWithItsLimit) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  Arguments words = {"train", "run.yaml", "--out", "run", "--progress", "json"};
  for (const auto* assignment : {"train.max_steps=1000000", "train.max_seconds=0.4",
                                 "train.evaluate_every=0", "train.checkpoint_every=0"})
    words.insert(words.end(), {"--set", assignment});
  const auto outcome = here.run(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  int shown = 0;
  for (const auto& line : lines_of(outcome.err))
    if (line.starts_with("{\"label\":\"train\"")) {
      EXPECT_LE(json::parse(line).at("eta").get<double>(), 0.4) << line;
      ++shown;
    }
  EXPECT_GT(shown, 10);
}

// As `longbow train … 2>&1 | head` does it.
TEST(TrainCommand, SavesWhenNobodyReadsItsMessagesAnyMore) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run(training("whole")).code, 0);
  std::filesystem::remove(here.path(".stderr"));
  ASSERT_EQ(mkfifo(here.path(".stderr").c_str(), 0600), 0);
  Running program(here.folder(), {"train", "run.yaml", "--out", "run", "--progress", "json"});
  {
    std::ifstream reader(here.path(".stderr"));
    std::string line;
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(std::getline(reader, line));
  }
  std::filesystem::remove(here.path(".stderr"));
  EXPECT_EQ(program.finish().code, -SIGPIPE);
  const int step = last_step(here, "run");
  EXPECT_LT(step, kSteps);
  EXPECT_TRUE(here.has("run/checkpoints/" + std::to_string(step) + "/trainer.json"));
  expect_continues(here, "run");
}

// Evaluations that take much longer than the steps between them.
std::string mostly_evaluation() {
  auto text = replaced(kTinyRecall, "valid: 24, test: 24", "valid: 600, test: 1600");
  text = replaced(text, "max_steps: 240", "max_steps: 20");
  return replaced(text, "evaluate_every: 20", "evaluate_every: 5");
}

TEST(TrainCommand, StopsInTheMiddleOfAnEvaluation) {
  const Workspace here;
  here.write("run.yaml", mostly_evaluation());
  ASSERT_EQ(here.run(training("whole")).code, 0);
  {
    Running program(here.folder(), training("run"));
    ASSERT_TRUE(program.wait_until([&] { return last_step(here, "run") >= 5; }));
    program.signal(SIGINT);
    const auto stopped = program.finish();
    EXPECT_EQ(stopped.code, 130);
    EXPECT_EQ(lines_of(stopped.err).back(), continuing("run"));
    EXPECT_EQ(last_step(here, "run"), 5);
    EXPECT_TRUE(json::parse(here.read("run/checkpoints/5/trainer.json")).at("unevaluated"));
  }
  {
    Running program(here.folder(), {"train", "run", "--resume"});
    ASSERT_TRUE(program.wait_until([&] { return here.has("run/model.safetensors"); }));
    program.signal(SIGINT);
    EXPECT_EQ(program.finish().code, 130) << "the last evaluation can be interrupted too";
    EXPECT_FALSE(here.has("run/results.json"));
  }
  expect_continues(here, "run");
}

TEST(TrainCommand, StopsWhileTheDataIsMade) {
  const Workspace here;
  here.write("run.yaml", replaced(kTinyRecall, "train: 160", "train: 50000000"));
  Running program(here.folder(), {"train", "run.yaml", "--out", "run", "--progress", "plain"});
  ASSERT_TRUE(program.wait_until([&] { return !here.read(".stderr").empty(); }));
  program.signal(SIGINT);
  const auto stopped = program.finish();
  EXPECT_TRUE(stopped.err.starts_with("making recall ")) << stopped.err;
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(lines_of(stopped.err).back(), "longbow: interrupted; nothing has been trained yet");
  EXPECT_FALSE(here.has("run"));
}

TEST(TrainCommand, ARunFolderIsAConfigForResumeOnly) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  std::filesystem::create_directories(here.path("empty"));
  const auto fresh = here.run({"train", "empty"});
  EXPECT_EQ(fresh.code, 2);
  EXPECT_EQ(fresh.err, "longbow: empty: is a folder; --resume continues the run in it\n");
  const auto empty = here.run({"train", "empty", "--resume"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_EQ(empty.err,
            "longbow: empty: is not a run folder: config.yaml is missing; `longbow train` prints "
            "the folder it fills\n");
}

TEST(TrainCommand, TwoDoNotWriteIntoOneFolder) {
  const Workspace here;
  here.write("run.yaml", replaced(kTinyRecall, "max_steps: 240", "max_steps: 100000"));
  Running program(here.folder(), training("run"));
  ASSERT_TRUE(program.wait_until([&] { return last_step(here, "run") >= 20; }));
  std::filesystem::create_directories(here.path("elsewhere"));  // its messages are kept apart
  const auto second = Running(here.path("elsewhere"),
                              {"train", here.path("run").string(), "--resume", "--progress", "off"})
                          .finish();
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err, "longbow: " + here.path("run").string() +
                            ": another process is writing to it; wait until it ends, or choose "
                            "another --out\n");
  program.signal(SIGKILL);
  program.finish();
  const auto words = training("run", {"--resume", "--set", "train.max_steps=30"});
  EXPECT_EQ(here.run(words).code, 0) << "death frees the folder";
}

TEST(TrainCommand, ARunWithoutAFiniteScoreFails) {
  const Workspace here;
  here.write("run.yaml",
             "task: markov\ndata: {markov: {train: 64, valid: 16, test: 16, length: 12}}\n"
             "model: {width: 16, layers: 1}\n"
             "train: {max_steps: 1, batch_size: 8, learning_rate: 1000, decay: constant}\n");
  const auto outcome = here.run(training("run"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(lines_of(outcome.err).back(),
            "longbow: run: FAIL: no evaluation on valid gave a finite perplexity");
  const auto result = json::parse(here.read("run/results.json"));
  EXPECT_TRUE(result.at("score").is_null());
  EXPECT_EQ(result.at("status"), "FAIL");
  EXPECT_EQ(result.at("reason"), "no evaluation on valid gave a finite perplexity");
  for (const auto& line : lines_of(here.read("run/metrics.jsonl")))
    if (const auto row = json::parse(line); row.at("split") == "valid") {
      EXPECT_TRUE(row.at("perplexity").is_null()) << line;
      EXPECT_TRUE(row.at("loss").is_number()) << line;
    }
  EXPECT_EQ(here.run({"report", "run"}).code, 0) << "the report reads what the run wrote";
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

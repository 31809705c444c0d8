#include "longbow/train/run/run_log.h"

#include <gtest/gtest.h>

#include <limits>

#include "longbow/core/console.h"
#include "longbow/core/file.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> scalars(const std::string& folder) {
  std::vector<std::string> seen;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") continue;
    for (const auto& event : parse_events(read_file(entry.path().string())))
      if (event.strings.empty() && event.version.empty())
        seen.push_back(event.tag + " " + std::to_string(event.step) + " " +
                       std::to_string(event.value));
  }
  return seen;
}

TEST(RunLog, ANumberStandsInBothFiles) {
  const auto folder = scratch();
  RunLog log(folder, {}, true);
  log.write("train", 3, {{"loss", 0.5}, {"learning_rate", 0.25}});
  EXPECT_EQ(read_file(folder + "/metrics.jsonl"),
            "{\"step\":3,\"split\":\"train\",\"loss\":0.5,\"learning_rate\":0.25}\n");
  EXPECT_EQ(scalars(folder),
            (std::vector<std::string>{"train/loss 3 0.500000", "train/learning_rate 3 0.250000"}));
}

TEST(RunLog, IsCutBehindTheLastStepAndWrittenAgain) {
  const auto folder = scratch();
  {
    RunLog log(folder, {}, true);
    for (int64_t step : {1, 2, 3}) log.write("train", step, {{"loss", 1.5}});
    log.write("test", 2, {{"loss", 1.5}});
  }
  RunLog log(folder, {.step = 2}, true);
  log.write("train", 3, {{"loss", 2.5}});
  EXPECT_EQ(read_file(folder + "/metrics.jsonl"),
            "{\"step\":1,\"split\":\"train\",\"loss\":1.5}\n"
            "{\"step\":2,\"split\":\"train\",\"loss\":1.5}\n"
            "{\"step\":3,\"split\":\"train\",\"loss\":2.5}\n");
  EXPECT_EQ(scalars(folder),
            (std::vector<std::string>{"train/loss 1 1.500000", "train/loss 2 1.500000",
                                      "train/loss 3 2.500000"}));
}

// Interrupted in the evaluation of step 2, resumed, and killed after the evaluation was made.
TEST(RunLog, AnEvaluationThatIsStillToBeMadeStandsThereOnce) {
  const auto folder = scratch();
  {
    RunLog log(folder, {}, true);
    for (int64_t step : {1, 2}) {
      log.write("train", step, {{"loss", 1.5}});
      log.write("valid", step, {{"loss", 0.5}});
    }
  }
  RunLog log(folder, {.step = 2, .evaluated = false}, true);
  log.write("valid", 2, {{"loss", 0.5}});
  EXPECT_EQ(read_file(folder + "/metrics.jsonl"),
            "{\"step\":1,\"split\":\"train\",\"loss\":1.5}\n"
            "{\"step\":1,\"split\":\"valid\",\"loss\":0.5}\n"
            "{\"step\":2,\"split\":\"train\",\"loss\":1.5}\n"
            "{\"step\":2,\"split\":\"valid\",\"loss\":0.5}\n");
  EXPECT_EQ(scalars(folder),
            (std::vector<std::string>{"train/loss 1 1.500000", "valid/loss 1 0.500000",
                                      "train/loss 2 1.500000", "valid/loss 2 0.500000"}));
}

TEST(RunLog, ANumberThatIsNotFiniteIsNull) {
  const auto folder = scratch();
  RunLog log(folder, {}, false);
  log.write("valid", 3, {{"perplexity", std::numeric_limits<double>::infinity()}, {"loss", 900}});
  EXPECT_EQ(read_file(folder + "/metrics.jsonl"),
            "{\"step\":3,\"split\":\"valid\",\"perplexity\":null,\"loss\":900}\n");
}

TEST(RunLog, NamesDamagedLinesAndLeavesThemOut) {
  const auto folder = scratch(), file = folder + "/metrics.jsonl";
  const std::string first = "{\"step\":1,\"split\":\"train\"}\n",
                    third = "{\"step\":3,\"split\":\"train\"}\n";
  write_file(file, first + "{\"step\":2,}\n" + third + std::string("\0\0\n", 3) +
                       "{\"step\":\"x\",\"split\":\"train\"}\n{\"step\":3,\"spl");
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  const RunLog log(folder, {.step = 5}, false);
  set_console({});
  EXPECT_EQ(read_file(file), first + third);
  std::string want;
  for (const auto* line : {"2", "4", "5"})
    want += "warning: " + file + ":" + line + ": is not a line of metrics and is ignored\n";
  EXPECT_EQ(written, want) << "a line that a kill has cut short is nothing to tell";
}

TEST(RunLog, WritesNoEventsWhenNoneAreWanted) {
  const auto folder = scratch();
  RunLog log(folder, {}, false);
  log.write("train", 1, {{"loss", 0.5}});
  log.text("config", "task: recall");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace longbow

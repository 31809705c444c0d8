// A training that is killed and resumed is, bit for bit, the training that was not: for every
// objective and precision, wherever SIGKILL finds it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 60;
const std::string kTrain =
    "train: {max_steps: 60, batch_size: 8, bucket: 4, learning_rate: 0.005, warmup_steps: 10, "
    "log_every: 1, evaluate_every: 7, checkpoint_every: 3, threads: 2}\nseed: 5\n";
const std::string kRecall =
    "task: recall\n"
    "data: {recall: {train: 160, valid: 24, test: 24, keys: 8, values: 4, pairs: 4, queries: 4}}\n"
    "model: {width: 16, layers: 1, block: {dropout: 0.1}, attention: linear}\n" +
    kTrain;

std::string words(const std::string& objective) {
  return "task: markov\nobjective: " + objective +
         "\ndata: {markov: {train: 160, valid: 24, test: 24, words: 8, followers: 4, branches: 2, "
         "length: 12, length_min: 5}}\n"
         "model: {width: 16, layers: 1, block: {dropout: 0.1}}\n" +
         kTrain;
}

const std::string kReverse =
    "task: reverse\n"
    "data: {reverse: {train: 160, valid: 24, test: 24, symbols: 5, length: 8, length_min: 3}}\n"
    "model: {encoder: {width: 16, layers: 1, block: {dropout: 0.1}, attention: linear}, "
    "decoder: {width: 16, layers: 1, block: {dropout: 0.1}, "
    "cross_attention: {name: linformer, rank: 4}}}\n" +
    kTrain;

struct Case {
  std::string name, config;
  Arguments set;
  std::string precision;
};
void PrintTo(const Case& row, std::ostream* out) {
  *out << row.name << " in " << row.precision;
}

std::vector<Case> cases() {
  std::vector<Case> rows;
  for (const auto* precision : {"fp32", "bf16"}) {
    const auto add = [&](const char* name, const std::string& config, const Arguments& set) {
      rows.push_back({name, config, set, precision});
    };
    add("classification", kRecall, {"train.accumulate=2", "train.keep_best=true"});
    add("causal_lm", words("causal_lm"), {"train.ema=0.9"});
    add("masked_lm", words("masked_lm"),
        {"train.accumulate=2", "train.ema=0.9", "train.keep_best=true"});
    add("replaced_tokens", words("replaced_tokens"), {"train.accumulate=2"});
    add("translation", kReverse, {"train.label_smoothing=0.1", "train.keep_best=true"});
  }
  return rows;
}

class Killing {
 public:
  Killing(const Workspace& here, const Case& row) : here_(here) {
    here.write("run.yaml", row.config);
    set_ = {"--set", "train.precision=" + row.precision};
    for (const auto& assignment : row.set) set_.insert(set_.end(), {"--set", assignment});
  }

  Outcome train(const std::string& out) const { return here_.run(words_of(out)); }

  // Starts or resumes the run "killed", waits for the moment, then for up to so long, and kills.
  // False when the run came to its end before.
  bool kill(const std::function<bool()>& moment, int64_t microseconds) {
    Running program(here_.folder(), words_of("killed"));
    if (!program.wait_until(moment)) return false;
    if (microseconds > 0)
      std::this_thread::sleep_for(
          std::chrono::microseconds(static_cast<int64_t>(random_()) % microseconds));
    program.signal(SIGKILL);
    return program.finish().code == -SIGKILL;
  }

  int between(int low, int high) { return low + static_cast<int>(random_() % (high - low)); }

 private:
  Arguments words_of(const std::string& out) const {
    auto words = training(out, {"--resume"});
    words.insert(words.end(), set_.begin(), set_.end());
    return words;
  }
  const Workspace& here_;
  Arguments set_;
  std::mt19937 random_{20};
};

void expect_same_end(const Workspace& here, const std::string& run, const std::string& want,
                     int steps) {
  expect_same_run(here, run, want);
  for (const auto* file : {"model", "optimizer"}) {
    const auto path =
        "/checkpoints/" + std::to_string(steps) + "/" + std::string(file) + ".safetensors";
    EXPECT_FALSE(here.read(want + path).empty());
    EXPECT_TRUE(here.read(run + path) == here.read(want + path)) << path;
  }
}

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, KilledAnywhereItGoesOnAsIfNothingHadBeen) {
  const Workspace here;
  Killing killing(here, GetParam());
  ASSERT_EQ(killing.train("whole").code, 0);
  for (const int from : {0, 20}) {
    const int step = from + killing.between(2, 18);
    EXPECT_TRUE(killing.kill([&] { return last_step(here, "killed") >= step; }, 0)) << step;
  }
  // Most likely in the middle of a checkpoint.
  EXPECT_TRUE(killing.kill(
      [&] { return last_step(here, "killed") >= 40 && here.has("killed/checkpoints/draft"); },
      4000));
  EXPECT_FALSE(here.has("killed/results.json"));
  // While the run is being concluded, if it is not over by then.
  killing.kill([&] { return here.has("killed/model.safetensors"); }, 4000);
  const auto last = killing.train("killed");
  ASSERT_EQ(last.code, 0) << last.err;
  expect_same_end(here, "killed", "whole", kSteps);
}

INSTANTIATE_TEST_SUITE_P(Objectives, Resume, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.name + "_" + info.param.precision;
});

TEST(ResumeCommand, ACheckpointThatWasBeingWrittenIsNotRead) {
  const Workspace here;
  Killing killing(here,
                  {"", kRecall, {"train.checkpoint_every=1", "train.keep_best=true"}, "fp32"});
  ASSERT_EQ(killing.train("whole").code, 0);
  int halves = 0;
  for (int round = 0; round < 20 && halves < 3; ++round) {
    const int before = last_step(here, "killed");
    ASSERT_TRUE(killing.kill(
        [&] { return last_step(here, "killed") > before && here.has("killed/checkpoints/draft"); },
        2000));
    halves += here.has("killed/checkpoints/draft");
  }
  EXPECT_EQ(halves, 3) << "checkpoints that were left unfinished";
  ASSERT_EQ(killing.train("killed").code, 0);
  expect_same_end(here, "killed", "whole", kSteps);
}

TEST(ResumeCommand, APretrainingAndItsTaskGoOn) {
  const Workspace here;
  Killing killing(here,
                  {"", kRecall + "pretrain: {objective: masked_lm, max_steps: 40}\n", {}, "bf16"});
  ASSERT_EQ(killing.train("whole").code, 0);
  for (const auto* phase : {"killed/pretrain", "killed"})
    for (const int from : {0, 18}) {
      const int step = from + killing.between(2, 16);
      EXPECT_TRUE(killing.kill([&] { return last_step(here, phase) >= step; }, 2000)) << phase;
      EXPECT_FALSE(here.has(std::string(phase) + "/results.json"));
    }
  ASSERT_EQ(killing.train("killed").code, 0);
  expect_same_end(here, "killed/pretrain", "whole/pretrain", 40);
  expect_same_end(here, "killed", "whole", kSteps);
}

// As on another machine: the run and its data lie elsewhere, and so does the working folder.
TEST(ResumeCommand, AMovedRunGoesOnByItsOwnConfig) {
  const Workspace here;
  const auto make_data = [&](const std::string& out, const std::string& seed) {
    const auto made = here.run({"data", "make", "recall", "--out", out, "--seed", seed, "--count",
                                "160", "--set", "keys=8", "--set", "pairs=4"});
    ASSERT_EQ(made.code, 0) << made.err;
  };
  make_data("data", "1");
  Killing killing(here, {"",
                         "task: recall\ndata: {path: data}\nmodel: {width: 16, layers: 1, block: "
                         "{dropout: 0.1}}\n" +
                             kTrain,
                         {},
                         "fp32"});
  ASSERT_EQ(killing.train("whole").code, 0);
  ASSERT_TRUE(killing.kill([&] { return last_step(here, "killed") >= 20; }, 2000));
  fs::create_directories(here.path("elsewhere/runs"));
  fs::rename(here.path("killed"), here.path("elsewhere/runs/moved"));
  Arguments words = {"train", "runs/moved/config.yaml", "--out", "runs/moved", "--resume"};
  {
    Running program(here.path("elsewhere"), words);
    ASSERT_TRUE(program.wait_until([&] { return last_step(here, "elsewhere/runs/moved") >= 35; }));
    program.signal(SIGKILL);
    ASSERT_EQ(program.finish().code, -SIGKILL);
  }
  fs::rename(here.path("data"), here.path("elsewhere/files"));
  make_data("elsewhere/others", "2");
  words.insert(words.end(), {"--set", "data.path=others"});
  const auto refused = Running(here.path("elsewhere"), words).finish();
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "longbow: runs/moved/config.yaml: the samples are not those of the run to resume; name "
            "the folder that holds them with --set data.path=DIR\n");
  words.back() = "data.path=files";
  const auto moved = Running(here.path("elsewhere"), words).finish();
  ASSERT_EQ(moved.code, 0) << moved.err;
  expect_same_end(here, "elsewhere/runs/moved", "whole", kSteps);
}

// One kind of run or arena that is killed again and again. `runs` are its run folders, in the order
// in which they are trained.
struct Kind {
  std::string name, config;
  Arguments command;
  std::vector<std::string> runs = {""};
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

std::vector<Kind> kinds() {
  const auto set = [](const Arguments& assignments) {
    Arguments words = {"train", "run.yaml", "--resume", "--set", "train.max_steps=24"};
    for (const auto& assignment : assignments) words.insert(words.end(), {"--set", assignment});
    return words;
  };
  return {{"classification", kRecall, set({"train.accumulate=2", "train.keep_best=true"})},
          {"causal_lm", words("causal_lm"), set({"train.ema=0.9", "train.precision=bf16"})},
          {"translation", kReverse, set({"train.keep_every=5", "train.keep_checkpoints=1"})},
          {"pretraining",
           kRecall + "pretrain: {objective: masked_lm, max_steps: 12}\n",
           set({}),
           {"/pretrain", ""}},
          {"arena",
           "name: killed\ncommon: {model: {width: 16, layers: 1}, train: {max_steps: 12, "
           "batch_size: 8, bucket: 4, log_every: 1, evaluate_every: 5, checkpoint_every: 3}}\n"
           "tasks: {recall: {data: {recall: {train: 64, valid: 16, test: 16, keys: 8, values: 4, "
           "pairs: 4, queries: 4}}}}\nmechanisms: [linear, softmax]\n",
           {"arena", "run.yaml"},
           {"/cells/recall/linear/seed-1", "/cells/recall/softmax/seed-1"}}};
}

// Of every kind; LONGBOW_KILLS=40 makes two hundred in all.
int wanted_kills() {
  const char* wanted = std::getenv("LONGBOW_KILLS");
  return wanted ? std::atoi(wanted) : 2;
}

// Every path below a folder; the name of an event file holds the time.
std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto path = fs::relative(entry.path(), folder).string();
    files.insert(path.substr(0, path.find("tfevents") + 8));
  }
  return files;
}

class Kills : public testing::TestWithParam<Kind> {
 protected:
  Arguments words(const std::string& out) const {
    auto words = GetParam().command;
    words.insert(words.end(), {"--out", out, "--progress", "off"});
    return words;
  }

  // Starts "killed" from nothing and kills it at a random moment: after a step, in a checkpoint or
  // in the last evaluation of one of its runs. False when it was over before.
  bool kill() {
    fs::remove_all(here_.path("killed"));
    const auto& runs = GetParam().runs;
    const auto run = "killed" + runs[random_() % runs.size()];
    const int step = static_cast<int>(random_() % 12);
    const auto kind = random_() % 4;
    Running program(here_.folder(), words("killed"));
    const bool came = program.wait_until([&] {
      if (kind == 0) return here_.has(run + "/model.safetensors");
      return last_step(here_, run) >= step && (kind != 1 || here_.has(run + "/checkpoints/draft"));
    });
    if (came) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 8000));
    program.signal(SIGKILL);
    return program.finish().code == -SIGKILL;
  }

  const Workspace here_;
  std::mt19937 random_{7};
};

TEST_P(Kills, EachEndsAsIfNothingHadBeen) {
  here_.write("run.yaml", GetParam().config);
  ASSERT_EQ(here_.run(words("whole")).code, 0);
  const auto want = files_in(here_.path("whole"));
  int killed = 0, tried = 0;
  for (; killed < wanted_kills(); ++tried) {
    if (!kill()) continue;
    SCOPED_TRACE(++killed);
    const auto last = here_.run(words("killed"));
    ASSERT_EQ(last.code, 0) << last.err;
    for (const auto& run : GetParam().runs) {
      const auto steps = last_step(here_, "whole" + run);
      expect_same_end(here_, "killed" + run, "whole" + run, steps);
    }
    EXPECT_EQ(files_in(here_.path("killed")), want);
    if (HasFailure()) return;
  }
  RecordProperty("kills", killed);
  std::cout << GetParam().name << ": " << killed << " kills in " << tried << " tries, " << killed
            << " equal ends\n";
}

INSTANTIATE_TEST_SUITE_P(Kinds, Kills, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longbow::cli

// Exit codes, the version, and what a user's mistake looks like: one line, its place, a hint, code
// 2, nothing written.
#include <gtest/gtest.h>

#include <regex>

#include "longbow/attention/mechanism.h"
#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

namespace fs = std::filesystem;

TEST(Program, TellsItsVersionCommitCompilerAndLibTorch) {
  const auto outcome = Workspace().run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  const std::regex form(
      R"(longbow \d+\.\d+\.\d+ \(commit \S+, (clang|g\+\+) [^,]*, LibTorch 2\.\d+\.\d+\S*\)\n)");
  EXPECT_TRUE(std::regex_match(outcome.out, form)) << outcome.out;
}

TEST(Program, HelpsWithEveryCommand) {
  const Workspace here;
  for (const auto* command : {"list", "describe", "doctor", "train", "eval", "arena", "bench",
                              "maps", "report", "data", "import", "export"}) {
    const auto outcome = here.run({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("--help"), std::string::npos) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
  const auto help = here.run({"bench", "--help"}).out;  // "=7" or "[7]", as CLI11's version has it
  EXPECT_TRUE(help.find("=7 ") != std::string::npos || help.find("[7]") != std::string::npos)
      << help;
}

struct Mistake {
  std::string name;
  Arguments arguments;
  std::string line;  // all of stderr
};

// One small change to the tiny config, and what becomes of it.
struct Slip {
  std::string name, from, to, line;
};

Mistake training(const Slip& slip, Workspace& here) {
  here.write("run.yaml", replaced(kTinyRecall, slip.from, slip.to));
  return {slip.name, {"train", "run.yaml"}, slip.line};
}

void expect_one_line(const Workspace& here, const Mistake& mistake) {
  SCOPED_TRACE(mistake.name);
  std::vector<fs::path> before, after;
  for (const auto& entry : fs::directory_iterator(here.folder())) before.push_back(entry.path());
  const auto outcome = here.run(mistake.arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "longbow: " + mistake.line + "\n");
  EXPECT_EQ(outcome.out, "");
  for (const auto& entry : fs::directory_iterator(here.folder()))
    if (entry.path().filename().string().front() != '.') after.push_back(entry.path());
  std::erase_if(before, [](const auto& path) { return path.filename().string().front() == '.'; });
  EXPECT_EQ(after.size(), before.size()) << "something was written";
}

TEST(Program, AMistakeInAConfigIsOneLineWithItsPlaceAndAHint) {
  const std::vector<Slip> slips = {
      {"typo", "max_steps", "max_stpes",
       "run.yaml:12: unknown key 'max_stpes'; did you mean 'max_steps'?"},
      {"wrong type", "width: 16", "width: wide",
       "run.yaml:5: model.width is 'wide', not an integer; write a whole number such as 64"},
      {"unknown mechanism", "name: linear", "name: liner",
       "run.yaml:10: unknown mechanism 'liner'; did you mean 'linear'?"},
      {"unknown option", "{name: linear}", "{name: linformer, rnak: 8}",
       "run.yaml:10: unknown key 'rnak'; did you mean 'rank'?"},
      {"unknown task", "task: recall", "task: recal",
       "run.yaml:1: unknown task 'recal'; did you mean 'recall'?"},
      {"no task", "task: recall\n", "", "run.yaml:1: task is missing; write task: listops"},
      {"causal fnet", "{name: linear}", "{name: fnet}\n  causal: true",
       "run.yaml:10: fnet is not causal; mechanisms that are: " +
           mechanisms_that([](const Promises& p) { return p.future != Future::refused; })},
      {"missing data", "data:\n", "data:\n  path: nowhere\n",
       "run.yaml:3: data.path 'nowhere' does not exist; make it with `longbow data make recall "
       "--out DIR`"},
      {"heads", "heads: 2", "heads: 3",
       "run.yaml:6: model.width 16 is not a multiple of model.heads 3; change one of them, or set "
       "model.head_width"},
      {"a list of layers", "{name: linear}", "[{name: linear, layers: 0-1}]",
       "run.yaml:10: layer 1 does not exist; the model has layers 0-0"},
  };
  Workspace here;
  for (const auto& slip : slips) expect_one_line(here, training(slip, here));
}

TEST(Program, AValueOutOfRangeNamesItsRange) {
  Workspace here;
  here.write("run.yaml", replaced(kTinyRecall, "dropout: 0.1", "dropout: 1.5"));
  const auto outcome = here.run({"train", "run.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  EXPECT_TRUE(outcome.err.starts_with("longbow: run.yaml:8: model.embedding_dropout is 1.5"))
      << outcome.err;
  EXPECT_NE(outcome.err.find("0..0.99"), std::string::npos) << outcome.err;
  EXPECT_FALSE(here.has("runs"));
}

TEST(Program, ACausalRequestToFNetNamesMechanismsThatAre) {
  Workspace here;
  here.write("run.yaml", replaced(kTinyRecall, "name: linear", "name: fnet"));
  expect_one_line(
      here, {"causal fnet",
             {"train", "run.yaml", "--set", "model.causal=true"},
             "run.yaml:10: fnet is not causal; mechanisms that are: " +
                 mechanisms_that([](const Promises& p) { return p.future != Future::refused; })});
}

TEST(Program, AMistakeInAFlagIsOneLineThatNamesTheFlag) {
  const std::vector<Mistake> mistakes = {
      {"set key",
       {"train", "run.yaml", "--set", "model.wdith=3"},
       "--set model.wdith: unknown key 'wdith'; did you mean 'width'?"},
      {"set form",
       {"train", "run.yaml", "--set", "width"},
       "--set 'width' has no key and value; write --set model.width=64"},
      {"device",
       {"train", "run.yaml", "--device", "tpu"},
       "--device: unknown device 'tpu'; one of: cpu, cuda, cuda:1"},
      {"progress",
       {"train", "run.yaml", "--progress", "loud"},
       "--progress: 'loud' is no style; one of: auto, bar, plain, json, off"},
      {"seed",
       {"train", "run.yaml", "--seed", "-3"},
       "--seed: '-3' is no whole number from 0 up; see --help"},
      {"resume what",
       {"train", "run.yaml", "--resume"},
       "--resume: no run is named; give its folder with --out"},
      {"no config", {"train", "nope.yaml"}, "nope.yaml: cannot be read; No such file or directory"},
      {"unknown flag",
       {"train", "run.yaml", "--frob"},
       "The following argument was not expected: --frob; see --help"},
      {"unknown command", {"tarin"}, "unknown command 'tarin'; did you mean 'train'?"},
      {"no command", {}, "A subcommand is required; see --help"},
      {"no argument", {"train"}, "config is required; see --help"},
      {"describe", {"describe", "liner"}, "unknown name 'liner'; did you mean 'linear'?"},
      {"eval folder",
       {"eval", "nowhere"},
       "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the folder "
       "it fills"},
      {"eval split",
       {"eval", "nowhere", "--split", "dev"},
       "--split: unknown split 'dev'; one of: train, valid, test"},
      {"predict split",
       {"predict", "nowhere", "--split", "dev"},
       "--split: unknown split 'dev'; one of: train, valid, test"},
      {"bench mechanism",
       {"bench", "--mechanisms", "foo"},
       "--mechanisms: unknown mechanism 'foo'; one of: " +
           mechanisms_that([](const Promises&) { return true; })},
      {"bench mode",
       {"bench", "--modes", "foward"},
       "--modes: unknown mode 'foward'; did you mean 'forward'?"},
      {"bench dtype",
       {"bench", "--dtype", "int8"},
       "--dtype: unknown dtype 'int8'; one of: float32, bfloat16, float64"},
      {"data set",
       {"data", "make", "recal", "--out", "d"},
       "unknown data set 'recal'; did you mean 'recall'?"},
  };
  Workspace here;
  here.write("run.yaml", kTinyRecall);
  for (const auto& mistake : mistakes) expect_one_line(here, mistake);
}

TEST(Program, AMissingOrTruncatedDataFileIsOneLine) {
  const Workspace here;
  const Arguments make = {"data", "make",  "listops",      "--out", "data",         "--count",
                          "100",  "--set", "min_length=5", "--set", "max_length=30"};
  ASSERT_EQ(here.run(make).code, 0);
  here.write("run.yaml", "task: listops\ndata: {path: data}\n");
  const Arguments train = {"train", "run.yaml", "--out", "run"};
  const auto whole = here.read("data/basic_train.tsv");
  const auto cut = whole.substr(0, whole.size() - 12);
  here.write("data/basic_train.tsv", cut);
  const auto rows = std::to_string(lines_of(cut).size());
  const auto truncated = here.run(train);
  EXPECT_EQ(truncated.code, 2);
  ASSERT_EQ(lines_of(truncated.err).size(), 1u) << truncated.err;
  EXPECT_NE(truncated.err.find("data/basic_train.tsv:" + rows + ": "), std::string::npos)
      << truncated.err;
  EXPECT_NE(truncated.err.find("; "), std::string::npos) << truncated.err;
  fs::remove(here.path("data/basic_val.tsv"));
  here.write("data/basic_train.tsv", whole);
  const auto missing = here.run(train);
  EXPECT_EQ(missing.code, 2);
  ASSERT_EQ(lines_of(missing.err).size(), 1u) << missing.err;
  EXPECT_NE(missing.err.find("data/basic_val.tsv: no such file; the folder should hold "
                             "basic_train.tsv, basic_val.tsv and basic_test.tsv"),
            std::string::npos)
      << missing.err;
  EXPECT_FALSE(here.has("run"));
}

}  // namespace
}  // namespace longbow::cli

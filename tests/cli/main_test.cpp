// Exit codes, the version, and what a user's mistake looks like: one line, its place, a hint, code
// 2, nothing written.
#include <gtest/gtest.h>

#include <regex>

#include "longbow/attention/mechanism.h"
#include "tests/cli/mistakes.h"

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
  const auto all = here.run({"--help"}).out;
  for (const std::string command :
       {"list", "describe", "init", "doctor", "train", "eval", "generate", "translate", "predict",
        "arena", "bench", "maps", "report", "data", "score", "import", "export"}) {
    const auto outcome = here.run({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_NE(outcome.out.find("--help"), std::string::npos) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_NE(all.find("\n  " + command + " "), std::string::npos) << command;
    const auto examples = outcome.out.find("Example");
    ASSERT_NE(examples, std::string::npos) << command;
    EXPECT_NE(outcome.out.find("\n  longbow " + command, examples), std::string::npos) << command;
  }
  const auto help = here.run({"bench", "--help"}).out;  // "=7" or "[7]", as CLI11's version has it
  EXPECT_TRUE(help.find("=7 ") != std::string::npos || help.find("[7]") != std::string::npos)
      << help;
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

TEST(Program, AnswersEveryMistakeWithOneLine) {
  const Workspace here;
  const auto all = mistakes(here);
  EXPECT_GE(all.size(), 90u);
  for (const auto& mistake : all) {
    here.write("run.yaml", mistake.config);
    expect_one_line(here, mistake);
  }
}

// There is no such data: whoever opened it would say so.
TEST(Program, OptionsAreCheckedBeforeTheDataIsOpened) {
  const auto config = replaced(kTinyRecall, "data:\n", "data:\n  path: nowhere\n");
  struct Slip {
    std::string name, from, to, line;
  };
  const std::vector<Slip> slips = {
      {"option", "{name: linear}", "{name: h1d, block: 7}",
       "run.yaml:11: h1d.block is 7, but halves of it are read; take an even number"},
      {"option of a layer", "{name: linear}", "{name: h1d, per_layer: {block: [7]}}",
       "run.yaml:11: h1d.block is 7, but halves of it are read; take an even number"},
      {"option and model", "{name: linear}", "{name: softmax, head_mask: [1]}",
       "run.yaml:11: softmax.head_mask has 1 entries for 2 heads; give one for each head, or leave "
       "it out"},
      {"length", "{name: linear}", "{name: linformer, rank: 33}\n  max_length: 32",
       "run.yaml:11: linformer.rank is 33, but max_length is 32; lower rank"},
      {"block", "feed_forward: 32",
       "feed_forward: 32, residual: reversible, feed_forward_kind: none",
       "run.yaml:10: model.block.residual is reversible, which needs a mixer and a feed-forward "
       "layer; take another residual"},
  };
  Workspace here;
  for (const auto& slip : slips) {
    here.write("run.yaml", replaced(config, slip.from, slip.to));
    expect_one_line(here, {slip.name, {"train", "run.yaml"}, slip.line});
  }
}

// Their products would not fit 64 bits.
TEST(Program, ASizeThatNoMachineHasIsOutOfRange) {
  Workspace here;
  here.write("run.yaml", kTinyRecall);
  const auto refused = [&](const std::string& key, const std::string& value,
                           const std::string& range) {
    expect_one_line(here, {key,
                           {"train", "run.yaml", "--set", key + "=" + value},
                           "--set " + key + ": " + key + " is " + value +
                               ", out of range; it may be " + range});
  };
  const std::string huge = "4611686018427387904";
  refused("model.layers", huge, "1..1024");
  refused("model.head_width", huge, "0..65536");
  refused("model.axial.rows", huge, "0..1073741824");
  refused("model.axial.columns", huge, "0..1073741824");
  refused("model.max_length", huge, "0..1073741824");
  refused("train.accumulate", huge, "1..1000000");
  refused("train.max_epochs", "1e300", "0..1000000000");
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

const std::string kFullDisk = "longbow: stdout: cannot be written; No space left on device\n";

TEST(Program, OutputThatCannotBeWrittenIsAFailure) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  for (const Arguments& words :
       std::vector<Arguments>{{"--version"},
                              {"--help"},
                              {"train", "--help"},
                              {"list"},
                              {"list", "--json"},  // more than a buffer
                              {"doctor"},
                              {"describe", "linear"},
                              {"data", "list"},
                              {"train", "run.yaml", "--dry-run"},
                              {"data", "make", "recall", "--out", "data", "--count", "100"},
                              {"data", "stats", "data"},
                              {"data", "verify", "data"}}) {
    const auto outcome = here.run(words, "/dev/full");
    EXPECT_EQ(outcome.code, 1) << words.front();
    const auto lines = lines_of(outcome.err);
    ASSERT_FALSE(lines.empty()) << words.front();
    EXPECT_EQ(lines.back() + "\n", kFullDisk) << words.front();
  }
}

TEST(Program, AFolderThatCannotBeMadeIsOneLine) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  here.write("file", "");
  const auto training = here.run({"train", "run.yaml", "--out", "file/run"});
  EXPECT_EQ(training.code, 2);
  EXPECT_EQ(lines_of(training.err).size(), 1u) << training.err;
  EXPECT_TRUE(training.err.starts_with("longbow: file/run: ")) << training.err;
  EXPECT_TRUE(training.err.ends_with("; Not a directory\n")) << training.err;
  const auto data = here.run({"data", "make", "recall", "--count", "100", "--out", "file"});
  EXPECT_EQ(data.code, 2);
  EXPECT_EQ(data.err, "longbow: file: the folder cannot be made; Not a directory\n");
}

TEST(Program, AMessageIsShortWhateverTheFileSays) {
  const Workspace here;
  here.write("run.yaml", "task: \"\\e[2J" + std::string(100000, 'a') + "\"\n");
  const auto outcome = here.run({"train", "run.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  EXPECT_LT(outcome.err.size(), 2500u);
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace longbow::cli

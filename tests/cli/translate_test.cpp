#include <sstream>

#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

std::string reversal(int steps, const std::string& model = "") {
  return "task: reverse\n"
         "data: {reverse: {train: 2000, valid: 64, test: 64, symbols: 5, length: 5, length_min: "
         "3}}\n"
         "model:\n"
         "  encoder: {width: 32, layers: 1, init: xavier}\n"
         "  decoder: {width: 32, layers: 1, init: xavier}\n" +
         model + "train: {max_steps: " + std::to_string(steps) +
         ", batch_size: 32, bucket: 2, threads: 0, learning_rate: 0.005, warmup_steps: 20}\n";
}

std::string backwards(const std::string& text) {
  std::istringstream stream(text);
  std::string word, turned;
  while (stream >> word) turned = turned.empty() ? word : word + " " + turned;
  return turned;
}

const std::vector<std::string> kSources = {"s4 s3 s3 s0 s1", "s0 s1 s2", "s2 s2 s4 s1",
                                           "s1 s0 s3 s4 s2", "s3 s4 s0"};
std::string sources() {
  std::string text;
  for (const auto& line : kSources) text += line + "\n";
  return text;
}

TEST(TranslateCommand, GivesALineForEachLineInItsOrder) {
  const Workspace here;
  train_run(here, "run", reversal(300));
  here.write("in.txt", sources());
  const auto lines = lines_of(answered(here, {"translate", "run", "--file", "in.txt"}));
  ASSERT_EQ(lines.size(), kSources.size());
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], backwards(kSources[i]));

  const auto objects =
      objects_of(answered(here, {"translate", "run", "--file", "in.txt", "--json"}));
  ASSERT_EQ(objects.size(), kSources.size());
  EXPECT_EQ(objects[1]["source"], "s0 s1 s2");
  EXPECT_EQ(objects[1]["texts"].size(), 1u);
  EXPECT_EQ(objects[1]["texts"][0]["text"], "s2 s1 s0");
  EXPECT_EQ(objects[1]["texts"][0]["tokens"], (std::vector<int>{5, 4, 3, 2})) << "the end last";

  const auto best = lines_of(answered(
      here, {"translate", "run", "--file", "in.txt", "--method", "beam", "--n-best", "3"}));
  ASSERT_EQ(best.size(), 3 * kSources.size());
  EXPECT_TRUE(best[3].starts_with("2 ||| s2 s1 s0 ||| -0.")) << best[3];
  for (size_t i = 0; i + 1 < 3; ++i) {
    const auto score = [&](size_t n) { return std::stod(best[n].substr(best[n].rfind(' '))); };
    EXPECT_GE(score(i), score(i + 1));
  }
}

TEST(TranslateCommand, WhatStandsBesideALineChangesNothing) {
  const Workspace here;
  // Hardly trained, so that small changes show; fnet sees how much padding there is.
  train_run(here, "run",
            replaced(reversal(20), "encoder: {width: 32", "encoder: {attention: fnet, width: 32"));
  here.write("in.txt", sources());
  const auto ask = [&](const std::string& file, const std::string& size) {
    return objects_of(answered(here, {"translate", "run", "--file", file, "--json", "--batch-size",
                                      size, "--method", "beam", "--n-best", "2"}));
  };
  const auto together = ask("in.txt", "8"), single = ask("in.txt", "1");
  for (size_t i = 0; i < kSources.size(); ++i) {
    here.write("one.txt", kSources[i]);  // without a line feed
    for (const auto& other : {ask("one.txt", "8").at(0), single.at(i)})
      for (size_t n = 0; n < 2; ++n) {
        EXPECT_EQ(together[i]["texts"][n]["tokens"], other["texts"][n]["tokens"]);
        EXPECT_NEAR(together[i]["texts"][n]["score"].get<double>(),
                    other["texts"][n]["score"].get<double>(), 1e-5);
      }
  }
}

TEST(TranslateCommand, TheFlagsGoOverTheConfig) {
  const Workspace here;
  train_run(here, "run", reversal(20, "  decoding: {method: beam, beams: 3, n_best: 2}\n"));
  here.write("in.txt", "s0 s1 s2\r\n");
  const auto ask = [&](Arguments flags) {
    flags.insert(flags.begin(), {"translate", "run", "--file", "in.txt"});
    return lines_of(answered(here, flags)).size();
  };
  EXPECT_EQ(ask({}), 2u) << "as the config says";
  EXPECT_EQ(ask({"--n-best", "3"}), 3u);
  EXPECT_EQ(ask({"--method", "greedy", "--n-best", "1"}), 1u);
  here.write("in.txt", "");
  EXPECT_EQ(ask({}), 0u) << "nothing in, nothing out";
}

TEST(TranslateCommand, SaysInOneLineWhatIsWrong) {
  const Workspace here;
  train_run(here, "run", reversal(2));
  const auto refused = [&](const std::string& text, const Arguments& flags = {}) {
    here.write("in.txt", text);
    Arguments all = {"translate", "run", "--file", "in.txt"};
    all.insert(all.end(), flags.begin(), flags.end());
    return error_line(here, all);
  };
  EXPECT_EQ(refused("s0 s1\ns0 ss1\n"),
            "in.txt:2: token 2, 'ss1', is not a symbol of the data; did you mean 's1'?");
  EXPECT_EQ(refused("s0\n\ns1\n"), "in.txt:2: there are no tokens; a line is one input");
  EXPECT_EQ(refused("s0\ts1\n"), "in.txt:1: a TAB too many; an input is one sequence");
  EXPECT_EQ(refused("s0 s0 s0 s0 s0 s0 s0\n"),
            "in.txt:1: 7 tokens, but the model holds 6; shorten the line, or train with a larger "
            "model.max_length");
  EXPECT_EQ(refused("s0\n", {"--beams", "0"}),
            "--beams: decoding.beams is 0, out of range; it may be 1..1024");
  EXPECT_EQ(refused("s0\n", {"--top-k", "3"}),
            "--top-k: the method greedy has no use for it; add --method sample");
  EXPECT_EQ(refused("s0\n", {"--n-best", "3"}),
            "--n-best: greedy decoding finds one text, not 3; set method to beam or sample");
  EXPECT_EQ(refused("s0\n", {"--max-length", "9"}),
            "--max-length: 9 tokens, but the decoder holds 6; lower it, or train with a larger "
            "model.decoder.max_length");
  EXPECT_EQ(error_line(here, {"generate", "run"}),
            "run: is a run of translation; generate needs one of causal_lm, perceiver_ar; ask this "
            "one with "
            "`longbow translate`");
  EXPECT_TRUE(error_line(here, {"translate", "run", "--file", "none.txt"})
                  .starts_with("none.txt: cannot be read"));
}

}  // namespace
}  // namespace longbow::cli

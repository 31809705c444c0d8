#include <algorithm>
#include <set>

#include "longbow/tasks/task.h"
#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

const std::string kTinyMarkov = R"(task: markov
data: {markov: {train: 200, valid: 16, test: 16, words: 8, followers: 3, branches: 2, length: 16, length_min: 4}}
model: {width: 16, layers: 1, init: xavier, attention: linear}
train: {max_steps: 30, batch_size: 16, bucket: 4, threads: 0, learning_rate: 0.01}
)";

TEST(GenerateCommand, ContinuesEachLine) {
  const Workspace here;
  train_run(here, "run", kTinyMarkov);
  here.write("in.txt", "w0 w1 w2\nw5\nw3 w4 w0\n");
  const auto lines =
      lines_of(answered(here, {"generate", "run", "--file", "in.txt", "--max-length", "4"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("w0 w1 w2 w"));
  EXPECT_TRUE(lines[1].starts_with("w5 w"));
  EXPECT_TRUE(lines[2].starts_with("w3 w4 w0 w"));
  for (const auto& [line, words] : {std::pair{lines[0], 7}, {lines[1], 5}, {lines[2], 7}})
    EXPECT_EQ(std::count(line.begin(), line.end(), 'w'), words);

  const auto one = objects_of(
      answered(here, {"generate", "run", "--prompt", "w5", "--max-length", "4", "--json"}));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0]["prompt"], "w5");
  EXPECT_EQ("w5 " + one[0]["texts"][0]["text"].get<std::string>(), lines[1]) << "as in a batch";
  EXPECT_EQ(one[0]["texts"][0]["tokens"].size(), 4u);
  EXPECT_LT(one[0]["texts"][0]["score"].get<double>(), 0);
}

TEST(GenerateCommand, FillsWhatTheModelHolds) {
  const Workspace here;
  train_run(here, "run", kTinyMarkov);
  here.write("in.txt", "w0 w1 w2\nw5\n");
  const auto objects =
      objects_of(answered(here, {"generate", "run", "--file", "in.txt", "--json"}));
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["texts"][0]["tokens"].size(), 14u) << "the last token is never read";
  EXPECT_EQ(objects[1]["texts"][0]["tokens"].size(), 16u);
}

TEST(GenerateCommand, BeginsTextsOfItsOwn) {
  const Workspace here;
  train_run(here, "run", kTinyMarkov);
  const auto ask = [&](const std::string& seed) {
    return answered(here, {"generate", "run", "--count", "12", "--method", "sample", "--seed", seed,
                           "--max-length", "8"});
  };
  const auto first = lines_of(ask("1"));
  ASSERT_EQ(first.size(), 12u);
  std::set<std::string> beginnings;
  for (const auto& line : first) {
    EXPECT_EQ(std::count(line.begin(), line.end(), 'w'), 9);
    beginnings.insert(line.substr(0, 2));
  }
  EXPECT_GT(beginnings.size(), 2u);
  EXPECT_EQ(lines_of(ask("1")), first) << "the same seed";
  EXPECT_NE(lines_of(ask("2")), first);
}

TEST(GenerateCommand, SamplesSeveralTextsAndStopsAtTheEnd) {
  const Workspace here;
  train_run(here, "run", replaced(kTinyMarkov, "attention: linear", "attention: linear, end: 3"));
  const auto objects = objects_of(
      answered(here, {"generate", "run", "--prompt", "w0", "--method", "sample", "--n-best", "20",
                      "--temperature", "2", "--top-k", "5", "--min-length", "1", "--json"}));
  ASSERT_EQ(objects.size(), 1u);
  ASSERT_EQ(objects[0]["texts"].size(), 20u);
  int ended = 0;
  for (const auto& text : objects[0]["texts"]) {
    const auto tokens = text["tokens"].get<std::vector<int>>();
    const auto words = text["text"].get<std::string>();
    const bool over = tokens.back() == 3;
    ended += over;
    EXPECT_EQ(words.find("w2"), std::string::npos) << "the end is not a word of the text";
    EXPECT_EQ(std::count(words.begin(), words.end(), 'w'), std::ssize(tokens) - (over ? 1 : 0));
    EXPECT_TRUE(over || tokens.size() == 16u);
    EXPECT_NE(tokens[0], 3) << "--min-length";
  }
  EXPECT_GT(ended, 5);
}

TEST(GenerateCommand, APlainTextGoesOnInTheMiddleOfAWord) {
  const Workspace here;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "one two three four\n";
  here.write("t.txt", text);
  train_run(here, "run",
            "task: lines\n"
            "data: {path: ., cache: cache, tokenizer: {train: bytes}, lines: {train: t.txt, "
            "length: 16}}\n"
            "model: {width: 16, layers: 1, init: xavier, attention: linear}\n"
            "train: {max_steps: 10, batch_size: 16, bucket: 4, threads: 0, learning_rate: 0.01}\n");
  const Arguments ask = {"generate", "run", "--prompt", "one tw", "--max-length", "6"};
  auto as_json = ask;
  as_json.emplace_back("--json");
  const auto object = objects_of(answered(here, as_json)).at(0);
  EXPECT_EQ(object["prompt"], "one tw");
  EXPECT_EQ(answered(here, ask), "one tw" + object["texts"][0]["text"].get<std::string>() + "\n");
}

TEST(GenerateCommand, SaysInOneLineWhatIsWrong) {
  const Workspace here;
  train_run(here, "run", replaced(kTinyMarkov, "max_steps: 30", "max_steps: 1"));
  const auto refused = [&](Arguments flags) {
    flags.insert(flags.begin(), {"generate", "run"});
    return error_line(here, flags);
  };
  EXPECT_EQ(
      refused({"--prompt", "w0 x"}),
      "--prompt: token 2, 'x', is not a symbol of the data; its symbols are w0, w1, w2, w3, w4, "
      "w5, w6, w7");
  EXPECT_EQ(refused({"--prompt", ""}), "--prompt: there are no tokens; a line is one input");
  EXPECT_EQ(refused({"--prompt", "w0", "--count", "2"}),
            "--count: says how many texts to begin, but there is a prompt; --method sample with "
            "--n-best writes several for each");
  EXPECT_EQ(refused({"--prompt", "w0", "--file", "-"}),
            "--prompt: --file is given too; leave one of them out");
  EXPECT_EQ(refused({"--prompt", "w0 w1 w2", "--max-length", "15"}),
            "--prompt: 15 tokens to generate after 3, but there is room for 14; lower "
            "--max-length, or train with a larger model.max_length");
  std::string predicted;
  for (const auto& objective : objectives())
    if (objective.command == "predict")
      predicted += (predicted.empty() ? "" : ", ") + objective.name;
  EXPECT_EQ(error_line(here, {"predict", "run"}),
            "run: is a run of causal_lm; predict needs one of " + predicted +
                "; ask this one with `longbow generate`");
  EXPECT_EQ(error_line(here, {"generate", "nowhere"}),
            "nowhere: is not a run folder: config.yaml is missing; `longbow train` prints the "
            "folder it fills");
}

}  // namespace
}  // namespace longbow::cli

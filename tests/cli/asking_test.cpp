// A trained model is its folder: copied alone, it answers as it did beside its data.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cli/asked.h"

namespace longbow::cli {
namespace {

namespace fs = std::filesystem;

struct Asked {
  std::string name, task, options, config, input;
  std::vector<Arguments> questions;  // without the folder, which is the second word
};
std::ostream& operator<<(std::ostream& stream, const Asked& asked) {
  return stream << asked.name;
}

const std::string kModel = "{width: 16, heads: 2, layers: 1, init: xavier, attention: softmax";

const Asked kAsked[] = {
    {"classification",
     "listops",
     "{train: 40, valid: 8, test: 8, min_length: 5, max_length: 30}",
     "model: " + kModel + "}",
     "[MAX 2 9 ]\n[MIN 4 [SM 1 2 ] 3 ]\n",
     {{"predict", "--file", "in.txt"},
      {"predict", "--file", "in.txt", "--json"},
      {"maps", "--out", "maps.svg", "--text", "[MAX 2 9 ]"}}},
    {"pairs",
     "match",
     "{train: 40, valid: 8, test: 8, length: 8}",
     "model: " + kModel + ", pairs: joint}",
     "t0w0 t1w1\tt0w2\n",
     {{"predict", "--file", "in.txt", "--json"},
      {"maps", "--out", "maps.svg", "--text", "t0w0 t1w1\tt0w2"}}},
    {"masked_lm",
     "markov",
     "{train: 40, valid: 8, test: 8, words: 8, followers: 3, branches: 2, length: 16, length_min: "
     "4}",
     "objective: masked_lm, model: " + kModel + "}",
     "w1 [MASK] w2\n",
     {{"predict", "--file", "in.txt", "--json"}}},
    {"causal_lm",
     "markov",
     "{train: 40, valid: 8, test: 8, words: 8, followers: 3, branches: 2, length: 16, length_min: "
     "4}",
     "model: " + kModel + "}",
     "w1 w2\nw3\n",
     {{"generate", "--file", "in.txt"},
      {"generate", "--prompt", "w5", "--method", "sample", "--n-best", "2", "--json"},
      {"generate", "--count", "5", "--method", "sample", "--max-length", "6"},
      {"maps", "--out", "maps.svg", "--text", "w1 w2 w3"}}},
    {"translation",
     "reverse",
     "{train: 40, valid: 8, test: 8, symbols: 5, length: 6}",
     "model: " + kModel + "}",
     "s0 s1\ns4 s3 s2\n",
     {{"translate", "--file", "in.txt", "--json"},
      {"translate", "--file", "in.txt", "--method", "beam", "--n-best", "2"},
      {"maps", "--out", "maps.svg", "--text", "s0 s1"}}},
};

class Alone : public testing::TestWithParam<Asked> {};

std::vector<std::string> answers(const Workspace& here, const std::string& folder,
                                 const Asked& asked) {
  std::vector<std::string> all;
  for (auto question : asked.questions) {
    question.insert(question.begin() + 1, folder);
    const auto outcome = here.run(question);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    all.push_back(outcome.out);
    if (question[0] == "maps") all.push_back(here.read("maps.svg"));
  }
  return all;
}

TEST_P(Alone, AModelAnswersAsItDidBesideItsData) {
  const Workspace here;
  const auto& asked = GetParam();
  Arguments make = {"data", "make", asked.task, "--out", "data"};
  for (auto rest = asked.options.substr(1, asked.options.size() - 2); !rest.empty();) {
    const auto end = std::min(rest.find(", "), rest.size());
    make.insert(make.end(), {"--set", replaced(rest.substr(0, end), ": ", "=")});
    rest = end == rest.size() ? "" : rest.substr(end + 2);
  }
  const auto made = here.run(make);
  ASSERT_EQ(made.code, 0) << made.err;
  train_run(here, "run",
            "{task: " + asked.task + ", data: {path: data}, " + asked.config +
                ", train: {max_steps: 6, batch_size: 8, bucket: 4, threads: 0}}");
  here.write("in.txt", asked.input);
  const auto before = answers(here, "run", asked);
  fs::create_directories(here.path("elsewhere"));
  fs::rename(here.path("run"), here.path("elsewhere/copy"));
  fs::remove_all(here.path("data"));
  EXPECT_EQ(answers(here, "elsewhere/copy", asked), before);

  const auto gone = error_line(here, {"eval", "elsewhere/copy"});
  EXPECT_NE(gone.find("data.path"), std::string::npos) << gone;
  EXPECT_NE(gone.find("does not exist; without its samples a run only answers to texts"),
            std::string::npos)
      << gone;
  EXPECT_EQ(error_line(here, {"maps", "elsewhere/copy", "--out", "m.svg", "--sample", "1"}), gone);
}

INSTANTIATE_TEST_SUITE_P(Asking, Alone, testing::ValuesIn(kAsked),
                         [](const auto& asked) { return asked.param.name; });

TEST(Asking, AModelOfACsvFileTakesWordsItHasNotSeen) {
  const Workspace here;
  fs::create_directories(here.path("data"));
  here.write("data/train.csv",
             "text,label\na fine film,good\nfine,good\na dull film,bad\ndull,bad\nvery "
             "fine,good\nvery dull,bad\na fine one,good\na dull one,bad\n");
  train_run(here, "run",
            "{task: csv, data: {path: data, csv: {train: train.csv}}, model: " + kModel +
                "}, train: {max_steps: 60, learning_rate: 0.01, batch_size: 4, threads: 0}}");
  fs::remove_all(here.path("data"));
  here.write("in.txt", "fine\ndull\nextraordinarily fine\n");
  const auto said = lines_of(answered(here, {"predict", "run", "--file", "in.txt", "--json"}));
  ASSERT_EQ(said.size(), 3u);
  EXPECT_NE(said[0].find("\"good\""), std::string::npos) << said[0];
  EXPECT_NE(said[1].find("\"bad\""), std::string::npos) << said[1];
}

TEST(Asking, NothingIsGeneratedToOpenAModel) {
  const Workspace here;
  train_run(here, "run", kTinyRecall);
  // Had the data been generated from the config, this would have taken minutes.
  here.write("run/config.yaml",
             replaced(here.read("run/config.yaml"), "train: 160", "train: 100000000"));
  here.write("in.txt", "k1 v2 k1\n");
  EXPECT_EQ(lines_of(answered(here, {"predict", "run", "--file", "in.txt", "--json"})).size(), 1u);
}

TEST(Asking, ASplitIsOfTheSamplesThatTheRunWasTrainedOn) {
  const Workspace here;
  ASSERT_EQ(here.run({"data", "make", "match", "--out", "data", "--set", "train=40"}).code, 0);
  train_run(here, "run",
            "{task: match, data: {path: data}, model: " + kModel +
                "}, train: {max_steps: 2, batch_size: 8, bucket: 4, threads: 0}}");
  fs::remove_all(here.path("data"));
  const auto gone = error_line(here, {"predict", "run", "--split", "test"});
  EXPECT_NE(gone.find("does not exist; without its samples a run only answers to texts"),
            std::string::npos)
      << gone;
}

TEST(Asking, MapsAreOfATextOrOfASample) {
  const Workspace here;
  train_run(here, "run", kTinyRecall);
  EXPECT_EQ(error_line(here, {"maps", "run", "--out", "m.svg", "--text", "k1", "--sample", "2"}),
            "--text: a sample is given too; leave one of them out");
}

// Models of plain text: the run folder alone, in an empty place, without the files and the cache.
struct TextAsked {
  std::string name, file, contents, config, input;
  Arguments question;
};
std::ostream& operator<<(std::ostream& stream, const TextAsked& asked) {
  return stream << asked.name;
}

constexpr const char* kArticle = R"({"data": [{"title": "t", "paragraphs": [{
  "context": "The river Han flows through Seoul.", "qas": [
    {"id": "1", "question": "Which river?", "answers": [{"text": "Han", "answer_start": 10}]},
    {"id": "2", "question": "Which city?", "answers": [{"text": "Seoul", "answer_start": 28}]}]}]}]})";

const TextAsked kTextAsked[] = {
    {"table",
     "a.csv",
     "text,label\na very red apple,fruit\nblue car,thing\n",
     "table: {train: a.csv, valid: a.csv, test: a.csv}",
     "a blue apple\n",
     {"predict"}},
    {"lines",
     "a.txt",
     "to be or not to be\nthat is the question\n",
     "lines: {train: a.txt, valid: a.txt, test: a.txt, length: 8}",
     "to be\n",
     {"generate", "--max-length", "4"}},
    {"parallel",
     "a.tsv",
     "1\tone\teins\n2\ttwo\tzwei\n",
     "parallel: {table: true, header: false, source: 2, target: 3, train: a.tsv, valid: a.tsv, "
     "test: a.tsv}",
     "one two\n",
     {"translate"}},
    {"questions",
     "a.json",
     kArticle,
     "questions: {train: a.json, valid: a.json, test: a.json}",
     "Which river?\tThe river Han flows through Seoul.\n",
     {"predict", "--json"}},
};

class TextAlone : public testing::TestWithParam<TextAsked> {};

TEST_P(TextAlone, AModelOfTextAnswersFromItsFolder) {
  const Workspace here;
  const auto& asked = GetParam();
  setenv("LONGBOW_CACHE", here.path("cache").c_str(), 1);
  fs::create_directory(here.path("data"));
  here.write("data/" + asked.file, asked.contents);
  train_run(here, "run",
            "{task: " + asked.name +
                ", data: {path: data, tokenizer: {train: wordpiece, "
                "min_frequency: 1}, " +
                asked.config + "}, model: " + kModel +
                "}, train: {max_steps: 2, batch_size: 2, bucket: 4}}");
  here.write("in.txt", asked.input);
  const auto ask = [&](const std::string& folder) {
    auto question = asked.question;
    question.insert(question.begin() + 1, folder);
    question.insert(question.end(), {"--file", "in.txt"});
    return answered(here, question);
  };
  const auto beside = ask("run");
  fs::create_directory(here.path("empty"));
  fs::rename(here.path("run"), here.path("empty/model"));
  fs::remove_all(here.path("data"));
  fs::remove_all(here.path("cache"));
  EXPECT_EQ(ask("empty/model"), beside);
  EXPECT_FALSE(here.has("cache")) << "nothing was encoded again";
  if (asked.name == "questions") {
    const std::string answer = objects_of(beside).at(0).at("answer");
    EXPECT_NE(asked.input.find(answer), std::string::npos) << answer;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TextAlone, testing::ValuesIn(kTextAsked),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace longbow::cli

// Texts of one's own, from the file to a model that has learnt from it: every kind of file and
// every objective that reads texts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <ostream>

#include "longbow/core/seed.h"
#include "tests/train/runs.h"

namespace longbow {
namespace {

constexpr std::array kNumbers = {"one", "two", "three", "four", "five", "six", "seven", "eight"};
constexpr std::array kZahlen = {"eins", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht"};
constexpr std::array kNames = {"anna", "berta", "carl", "dora", "emil", "frida"};
constexpr std::array kTowns = {"seoul", "busan", "daegu", "jeju", "ulsan"};

template <class List>
std::string drawn(const List& list, Stream& stream) {
  return list[static_cast<size_t>(stream.below(std::ssize(list)))];
}

// A class that one word in the middle decides, and a number that says the same.
std::string table_of(int64_t rows) {
  Stream stream(1, "table");
  std::string text = "text,label,value\n";
  for (int64_t i = 0; i < rows; ++i) {
    const bool warm = stream.below(2) == 1;
    text += fmt::format("{} finds {} {} in {},{},{}\n", drawn(kNames, stream),
                        drawn(kNumbers, stream), warm ? "sunny days" : "rainy days",
                        drawn(kTowns, stream), warm ? "warm" : "cold", warm ? 4 : 1);
  }
  return text;
}

// Counting: every word follows from the one before it.
std::string lines_of(int64_t rows) {
  Stream stream(2, "lines");
  std::string text;
  for (int64_t i = 0; i < rows; ++i) {
    const auto start = stream.below(8);
    for (int64_t k = 0; k < 8; ++k)
      text +=
          fmt::format("{}{}", kNumbers[static_cast<size_t>((start + k) % 8)], k < 7 ? " " : "\n");
  }
  return text;
}

std::string pairs_of(int64_t rows) {
  Stream stream(3, "pairs");
  std::string text = "en,de\n";
  for (int64_t i = 0; i < rows; ++i) {
    std::string english, german;
    for (int64_t k = 0, length = 2 + stream.below(3); k < length; ++k) {
      const auto word = static_cast<size_t>(stream.below(8));
      english += fmt::format("{}{}", k > 0 ? " " : "", kNumbers[word]);
      german += fmt::format("{}{}", k > 0 ? " " : "", kZahlen[word]);
    }
    text += english + "," + german + "\n";
  }
  return text;
}

std::string questions_of(int64_t rows) {
  Stream stream(4, "questions");
  std::string items;
  for (int64_t i = 0; i < rows; ++i) {
    const auto name = drawn(kNames, stream), town = drawn(kTowns, stream);
    const auto before = fmt::format("this year {} lives in ", name);
    items += fmt::format(
        R"({}{{"title": "t{}", "paragraphs": [{{"context": "{}{} again.", "qas": [{{"id": "{}", )"
        R"("question": "where does {} live?", "answers": [{{"text": "{}", "answer_start": {}}}]}}]}}]}})",
        i > 0 ? ",\n" : "", i, before, town, i, name, town, before.size());
  }
  return "{\"data\": [" + items + "]}";
}

struct TextLesson {
  std::string name, file, contents;
  std::string config;  // but for data.path and the cache
};
void PrintTo(const TextLesson& lesson, std::ostream* out) {
  *out << lesson.name;
}

const std::string kTraining =
    "train: {max_steps: 150, batch_tokens: 512, learning_rate: 0.005, bucket: 8, threads: 0, "
    "evaluate_every: 0, log_every: 5}";

std::vector<TextLesson> lessons() {
  const auto table = table_of(400), text = lines_of(400);
  return {
      {"table", "t.csv", table,
       "{name: table, tokenizer: {train: wordpiece, vocabulary: 100, min_frequency: 1}, "
       "table: {train: t.csv}}"},
      {"value", "t.csv", table,
       "{name: table, tokenizer: {train: words, min_frequency: 1}, table: {train: t.csv, label: "
       "'', "
       "value: value}}"},
      {"causal_lm", "t.txt", text,
       "{name: lines, tokenizer: {train: byte_bpe, vocabulary: 300, min_frequency: 1}, lines: "
       "{train: t.txt, length: 32}}"},
      {"masked_lm", "t.txt", text,
       "{name: lines, tokenizer: {train: wordpiece, vocabulary: 100, min_frequency: 1}, lines: "
       "{train: t.txt, length: 32}}"},
      {"replaced_tokens", "t.txt", text,
       "{name: lines, tokenizer: {train: unigram, vocabulary: 60}, lines: {train: t.txt, length: "
       "32}}"},
      {"characters", "t.txt", text,
       "{name: lines, tokenizer: {train: characters}, lines: {train: t.txt, length: 64}}"},
      {"parallel", "t.csv", pairs_of(600),
       "{name: parallel, tokenizer: {train: words, min_frequency: 1}, parallel: {train: t.csv, "
       "source: en, target: de}}"},
      {"questions", "q.json", questions_of(500),
       "{name: questions, tokenizer: {train: wordpiece, vocabulary: 120, min_frequency: 1}, "
       "questions: {train: q.json}}"},
  };
}

class TextTrain : public testing::TestWithParam<TextLesson> {};

TEST_P(TextTrain, TheLossFalls) {
  const auto& lesson = GetParam();
  const auto folder = scratch();
  write_file(folder + "/" + lesson.file, lesson.contents);
  auto data = parse_yaml(lesson.config, "data");
  const auto set = as_string(*data.find("name"), "name");
  std::erase_if(data.entries, [](const auto& entry) { return entry.first == "name"; });
  data["path"] = Node::string(folder);
  data["cache"] = Node::string(folder + "/cache");
  auto tree = parse_yaml(
      "task: " + set + "\nmodel: {width: 32, heads: 2, layers: 1, init: xavier}\n" + kTraining,
      "run.yaml");
  tree["data"] = data;
  if (lesson.name == "value") tree["objective"] = Node::string("regression");
  if (lesson.name == "masked_lm" || lesson.name == "replaced_tokens") {
    tree["objective"] = Node::string(lesson.name);
    tree["model"]["masking"] = parse_yaml("{whole_words: true}", "masking");
    tree["train"]["max_steps"] = Node::integer(500);
  }
  const auto run_folder = folder + "/run";
  const auto result = run(read_run_config(tree), run_folder);
  EXPECT_EQ(result.status, "ok") << result.reason;
  const auto all = losses(run_folder);
  ASSERT_GT(all.size(), 10u);
  const auto last = std::accumulate(all.end() - 10, all.end(), 0.0) / 10;
  EXPECT_LT(last, 0.75 * all.front());
}

INSTANTIATE_TEST_SUITE_P(Lessons, TextTrain, testing::ValuesIn(lessons()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace longbow

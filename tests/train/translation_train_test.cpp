// A translation learnt from texts is scored against the texts, not against what tokens keep of
// them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "longbow/core/file.h"
#include "longbow/core/seed.h"
#include "longbow/metrics/bleu.h"
#include "longbow/tasks/objectives/translation.h"
#include "longbow/train/run/finished_run.h"
#include "longbow/train/run/train.h"
#include "tests/train/scratch.h"

namespace longbow {
namespace {

using Lines = std::vector<std::string>;

constexpr std::array kNumbers = {"one", "two", "three", "four", "five", "six", "seven", "eight"};
constexpr std::array kZahlen = {"eins", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht"};

std::string in_capitals(std::string text) {
  for (auto& c : text)
    if (c != ' ') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

void write_lines(const std::string& path, const Lines& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  write_file(path, text);
}

// NAME.en and NAME.de. Every third target is in capitals; gives the targets.
Lines write_pairs(const std::string& name, uint64_t seed, int64_t rows) {
  Stream stream(seed, "pairs");
  Lines english, german;
  for (int64_t i = 0; i < rows; ++i) {
    std::string source, target;
    for (int64_t k = 0, length = 4 + stream.below(3); k < length; ++k) {
      const auto word = static_cast<size_t>(stream.below(8));
      source += std::string(k > 0 ? " " : "") + kNumbers[word];
      target += std::string(k > 0 ? " " : "") + kZahlen[word];
    }
    english.push_back(source);
    german.push_back(i % 3 == 0 ? in_capitals(target) : target);
  }
  write_lines(name + ".en", english);
  write_lines(name + ".de", german);
  return german;
}

RunConfig config_in(const std::string& folder) {
  auto tree = parse_yaml(
      "task: parallel\n"
      "data: {tokenizer: {train: wordpiece, vocabulary: 200, min_frequency: 1}, "
      "parallel: {train: train, valid: valid, test: test, source: en, target: de}}\n"
      "model: {metric: bleu, width: 32, heads: 2, layers: 1, init: xavier}\n"
      "train: {max_steps: 150, batch_tokens: 256, learning_rate: 0.005, bucket: 8, threads: 0, "
      "evaluate_every: 0}",
      "run.yaml");
  tree["data"]["path"] = Node::string(folder);
  tree["data"]["cache"] = Node::string(folder + "/cache");
  return read_run_config(tree);
}

std::string shown(const Task& task, std::vector<int64_t> ids) {
  if (!ids.empty() && ids.back() == task.splits().end) ids.pop_back();
  return task.texts().written.text(ids);
}

// One by one and without padding.
std::string translated(Task& task, const Dataset& data, int64_t i) {
  const auto batch = collate(data, {.indices = {i}, .padded_length = data.length(i)});
  const auto decoded = translate(task, batch, Random::from_seed(1, 0));
  const auto row =
      decoded.tokens[0][0].narrow(0, 0, decoded.lengths[0][0].item<int64_t>()).contiguous();
  return shown(task, {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()});
}

TEST(TranslationTrain, BleuComparesWithTheTextsOfTheFiles) {
  const auto folder = scratch();
  write_pairs(folder + "/train", 1, 600);
  const std::array references = {write_pairs(folder + "/valid", 2, 30),
                                 write_pairs(folder + "/test", 3, 40)};
  const auto result =
      train(config_in(folder), {.out = folder + "/run", .progress = ProgressStyle::off});
  ASSERT_EQ(result.status, "ok") << result.reason;
  EXPECT_EQ(result.metric, "bleu");
  const at::NoGradGuard no_grad;
  const auto opened = open_run(folder + "/run", at::kCPU);
  auto& task = *opened.task;
  task.model().eval();
  const std::array splits = {task.splits().valid, task.splits().test};
  const std::array scores = {result.valid_score, result.score};
  for (size_t s = 0; s < splits.size(); ++s) {
    Lines hypotheses, decoded;
    for (int64_t i = 0; i < splits[s]->size(); ++i) {
      const auto target = splits[s]->get(i).second;
      hypotheses.push_back(translated(task, *splits[s], i));
      decoded.push_back(shown(task, {target.begin(), target.end()}));
    }
    const std::vector<Lines> texts = {references[s]}, tokens = {decoded};
    const auto right = metrics::corpus_bleu(hypotheses, texts).score;
    EXPECT_GT(right, 0);
    EXPECT_GT(metrics::corpus_bleu(hypotheses, tokens).score, right) << "tokens have no capitals";
    ASSERT_TRUE(scores[s]);
    EXPECT_NEAR(*scores[s], right, 1e-9);
  }
}

}  // namespace
}  // namespace longbow

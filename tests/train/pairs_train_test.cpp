// Models of pairs, values and spans. Where a sequence becomes one row it is its first, which knows
// of the others only by a mechanism.
#include <algorithm>
#include <cmath>

#include "longbow/data/sets/needle.h"
#include "tests/train/lesson.h"

namespace longbow {
namespace {

// One who knows answer words but not the marker before them takes any; each target is one of them.
Outlook any_answer_word(const RunConfig& config, const Splits& splits, const nlohmann::json&) {
  const auto first = 2 + read<NeedleConfig>(config.data.options).words;
  double loss = 0;
  for (int64_t i = 0; i < splits.test->size(); ++i) {
    const auto tokens = splits.test->get(i).tokens;
    loss += std::log(
        std::count_if(tokens.begin(), tokens.end(), [&](int32_t token) { return token >= first; }));
  }
  return {.blind = loss / static_cast<double>(splits.test->size())};
}

const std::vector<Lesson> kLessons = {
    {.name = "towers",
     .task = "match",
     .data = "{train: 2000, valid: 100, test: 200, topics: 3, words: 4, length: 12}",
     .model = "{width: 32, layers: 1, init: xavier, head: 32, pooling: first}",
     .train = "{max_steps: 150, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.05,
     .outlook = given_first_tokens},
    {.name = "joint",
     .task = "match",
     .data = "{train: 2000, valid: 100, test: 200, topics: 3, words: 4, length: 5}",
     .model = "{width: 32, layers: 2, init: xavier, head: 32, pooling: first, pairs: joint}",
     .train = "{max_steps: 250, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.1,
     .outlook = given_first_tokens},
    {.name = "value",
     .task = "count",
     .data = "{train: 2000, valid: 100, test: 200, words: 4, length: 12, length_min: 8}",
     .model = "{width: 32, layers: 2, init: xavier, pooling: first}",
     .train = "{max_steps: 150, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.003,
     .outlook = given_first_tokens},
    {.name = "value_of_towers",
     .task = "count",
     .data = "{train: 2000, valid: 100, test: 200, words: 4, length: 12, length_min: 8, "
             "pairs: true}",
     .model = "{width: 32, layers: 2, init: xavier, head: 32, range: [0, 1], pooling: first}",
     .train = "{max_steps: 250, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.006,
     .outlook = given_first_tokens},
    {.name = "value_of_joint",
     .task = "count",
     .data = "{train: 2000, valid: 100, test: 200, words: 4, length: 5, pairs: true}",
     .model = "{width: 32, layers: 2, init: xavier, head: 32, pooling: first, pairs: joint}",
     .train = "{max_steps: 400, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.006,
     .outlook = given_first_tokens},
    {.name = "span",
     .task = "needle",
     .data = "{train: 2000, valid: 100, test: 200, words: 8, answers: 4, length: 12, width: 2}",
     .model = "{width: 32, layers: 1, init: xavier}",
     .train = "{max_steps: 300, batch_size: 32, bucket: 4, learning_rate: 0.003}",
     .loss = 0.1,
     .outlook = any_answer_word},
};

struct PairsTrain : LessonTest {};

TEST_P(PairsTrain, ReachesTheStatedLoss) {
  const auto& [lesson, means] = GetParam();
  expect_learnt(lesson, means);
}

INSTANTIATE_TEST_SUITE_P(Lessons, PairsTrain, testing::ValuesIn(by_every_mechanism(kLessons)),
                         test_name);

}  // namespace
}  // namespace longbow

// Models that give classes: one a sequence, pooled in every way, one a token, and one a text of
// characters.
#include <cmath>

#include "tests/train/lesson.h"

namespace longbow {
namespace {

// A token does not know which value its key was shown with: all are alike to it.
Outlook any_value(const RunConfig&, const Splits& splits, const nlohmann::json&) {
  return {.blind = std::log(static_cast<double>(splits.classes))};
}

// The root operator comes first and leaves more than two nats open: half of that is asked for. A
// model without a mechanism that pools more than the first token adds up what each digit says, and
// learns some of it.
Lesson expressions(const std::string& name, const std::string& pooling) {
  return {.name = name,
          .task = "listops",
          .data =
              "{train: 3000, valid: 100, test: 200, min_length: 3, max_length: 8, "
              "max_depth: 2, max_args: 4}",
          .model = "{width: 32, layers: 2, init: xavier, pooling: " + pooling + "}",
          .train = "{max_steps: 250, batch_size: 64, bucket: 4, learning_rate: 0.005}",
          .loss = 1,
          .outlook = given_first_tokens,
          .rank = 5,
          .window = 2};
}

const std::vector<Lesson> kLessons = {
    expressions("first", "first"),
    expressions("mean", "mean"),
    expressions("max", "max"),
    expressions("attention", "attention"),
    {.name = "tokens",
     .task = "recall",
     .data = "{train: 2000, valid: 100, test: 200, keys: 6, values: 3, pairs: 4, queries: 3, "
             "joint: true}",
     .model = "{width: 32, layers: 2, init: xavier}",
     .train = "{max_steps: 300, batch_size: 32, bucket: 8, learning_rate: 0.005}",
     .loss = 0.2,
     .outlook = any_value,
     .window = 3},
    // The class is read off the first molecule, which only the deep stack tells of the others.
    {.name = "characters",
     .task = "listops",
     .objective = "characters",
     .data = "{train: 3000, valid: 100, test: 200, min_length: 3, max_length: 8, max_depth: 2, "
             "max_args: 4}",
     .model = "{width: 32, heads: 2, layers: 1, hashes: 4, buckets: 64, rate: 2, max_length: 0, "
              "first: {name: local, window: 2, back: 0, ahead: 0}, init: xavier, "
              "block: {norm_epsilon: 1e-5}}",
     .train = "{max_steps: 300, batch_size: 64, bucket: 4, learning_rate: 0.005}",
     .loss = 1.2,
     .outlook = given_first_tokens,
     .rank = 4,
     .window = 2},
};

struct ClassificationTrain : LessonTest {};

TEST_P(ClassificationTrain, ReachesTheStatedLoss) {
  const auto& [lesson, means] = GetParam();
  expect_learnt(lesson, means);
}

INSTANTIATE_TEST_SUITE_P(Lessons, ClassificationTrain,
                         testing::ValuesIn(by_every_mechanism(kLessons)), test_name);

}  // namespace
}  // namespace longbow

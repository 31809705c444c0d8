// Perceivers learn. Their cross-attention lets latents see tokens whatever the latent blocks are,
// so that there is no lesson by none.
#include "tests/train/lesson.h"

namespace longbow {
namespace {

const std::vector<Lesson> kLessons = {
    {.name = "perceiver",
     .task = "listops",
     .objective = "perceiver",
     .data = "{train: 3000, valid: 100, test: 200, min_length: 3, max_length: 8, max_depth: 2, "
             "max_args: 4}",
     .model = "{width: 32, heads: 2, layers: 1, latents: 8, repeats: 2, init: xavier}",
     .train = "{max_steps: 300, batch_size: 64, bucket: 4, learning_rate: 0.005}",
     .loss = 1,
     .outlook = given_first_tokens,
     .rank = 4,
     .window = 2},
    // Four of eleven tokens of a sample are predicted in a step, and all of them in the end.
    {.name = "perceiver_ar",
     .task = "markov",
     .objective = "perceiver_ar",
     .data = "{train: 2048, valid: 64, test: 128, words: 8, followers: 4, branches: 2, length: 12}",
     .model = "{width: 32, layers: 2, latents: 4, init: xavier}",
     .train = "{max_steps: 600, batch_size: 64, bucket: 12, learning_rate: 0.005}",
     .loss = 0.9,
     .outlook = given_last_word,
     .rank = 3,
     .window = 2},
};

struct PerceiverTrain : LessonTest {};

TEST_P(PerceiverTrain, ReachesTheStatedLoss) {
  const auto& [lesson, means] = GetParam();
  expect_learnt(lesson, means);
}

INSTANTIATE_TEST_SUITE_P(Lessons, PerceiverTrain,
                         testing::Combine(testing::ValuesIn(kLessons),
                                          testing::Values(Means{.name = "softmax"},
                                                          Means{.name = "linear"})),
                         test_name);

}  // namespace
}  // namespace longbow

// Language models learn words of a Markov chain, whose entropy says what there is to learn.
#include <cmath>

#include "tests/train/lesson.h"

namespace longbow {
namespace {

// A detector that sees no other token knows how many are replaced. Replaced words are what the
// generator draws, so this is known only afterwards.
Outlook share_of_replaced(const RunConfig&, const Splits&, const nlohmann::json& test) {
  const double share = test.at("replaced").get<double>();
  return {.blind = -share * std::log(share) - (1 - share) * std::log(1 - share)};
}

// The word before a hidden one is all that is known of it; those behind it tell more.
Outlook given_word_before(const RunConfig& config, const Splits& splits,
                          const nlohmann::json& test) {
  return {.blind = given_last_word(config, splits, test).blind};
}

const std::vector<Lesson> kLessons = {
    {.name = "causal",
     .task = "markov",
     .objective = "causal_lm",
     .data = "{train: 2048, valid: 64, test: 128, words: 8, followers: 4, branches: 2, length: 12}",
     .model = "{width: 32, layers: 2, init: xavier}",
     .train = "{max_steps: 300, batch_size: 64, bucket: 12, learning_rate: 0.005}",
     .loss = 0.85,
     .outlook = given_last_word,
     .rank = 10},
    {.name = "masked",
     .task = "markov",
     .objective = "masked_lm",
     .data = "{train: 2048, valid: 64, test: 128, words: 8, followers: 4, branches: 2, length: 12}",
     .model = "{width: 32, layers: 2, init: lra, positions: sinusoidal}",
     .train = "{max_steps: 400, batch_size: 64, bucket: 12, learning_rate: 0.01}",
     .loss = 1,
     .outlook = given_word_before,
     .rank = 10},
    // Two words of sixteen may follow a word: what a generator draws seldom fits.
    {.name = "replaced",
     .task = "markov",
     .objective = "replaced_tokens",
     .data = "{train: 2048, valid: 64, test: 128, words: 16, followers: 2, branches: 2, length: 6}",
     .model = "{width: 32, layers: 2, init: xavier, generator: {layers: 1}}",
     .train = "{max_steps: 500, batch_size: 64, bucket: 6, learning_rate: 0.005}",
     .loss = 0.28,
     .outlook = share_of_replaced,
     .loss_name = "detector_loss",
     .rank = 5,
     .window = 2},
};

struct LanguageTrain : LessonTest {};

TEST_P(LanguageTrain, ReachesTheStatedLoss) {
  const auto& [lesson, means] = GetParam();
  expect_learnt(lesson, means);
}

INSTANTIATE_TEST_SUITE_P(Lessons, LanguageTrain, testing::ValuesIn(by_every_mechanism(kLessons)),
                         test_name);

}  // namespace
}  // namespace longbow

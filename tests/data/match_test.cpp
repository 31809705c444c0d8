#include "longbow/data/sets/match.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/data/folder.h"

namespace longbow {
namespace {

// Words 1 and 2 are of topic 0, words 3 and 4 of topic 1.
std::string answered(Sample& sample) {
  const auto generator = match_generator({.topics = 2, .words = 2});
  return error_of([&] { generator.answer(sample, {"f", 2}); });
}

TEST(Match, AnswersWhetherTheTopicsOfMostTokensAreTheSame) {
  Sample same = {.tokens = {1, 2, 3}, .second = {2, 2}}, other = {.tokens = {1}, .second = {4}};
  EXPECT_EQ(answered(same), "no error");
  EXPECT_EQ(same.targets, std::vector<int32_t>{1});
  EXPECT_EQ(answered(other), "no error");
  EXPECT_EQ(other.targets, std::vector<int32_t>{0});
}

TEST(Match, RefusesSamplesWithoutATopicOrASecondSequence) {
  Sample split = {.tokens = {1, 3}, .second = {1}}, alone = {.tokens = {1}};
  EXPECT_EQ(answered(split), "f:2: no topic has more than half of the tokens of a sequence");
  EXPECT_EQ(answered(alone), "f:2: no second sequence");
}

TEST(Match, HalfOfThePairsMatchAndMostWordsAreOfTheTopic) {
  const auto splits = generate(
      match_generator({.train = 1000, .valid = 1, .test = 1, .length = 20, .length_min = 10}), 1);
  EXPECT_EQ(splits.vocabulary, 1 + 8 * 8);
  EXPECT_EQ(splits.classes, 2);
  EXPECT_EQ(splits.symbols[9], "t1w0");
  int64_t matching = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto sample = splits.train->get(i);
    matching += sample.targets[0];
    std::map<int32_t, size_t> topics;
    for (const auto token : sample.tokens) ++topics[(token - 1) / 8];
    size_t most = 0;
    for (const auto& [topic, count] : topics) most = std::max(most, count);
    ASSERT_GE(static_cast<double>(most), 0.7 * static_cast<double>(sample.tokens.size()));
  }
  EXPECT_NEAR(static_cast<double>(matching), 500, 4 * 16);  // four deviations of a fair coin
}

TEST(Match, RefusesMoreWordsThanFit) {
  EXPECT_EQ(error_of([] { match_generator({.topics = 1000, .words = 100}); }),
            "topics is 1000 and words is 100: 100001 symbols, but at most 65536 fit; lower topics "
            "or words");
}

}  // namespace
}  // namespace longbow

#include "longbow/data/sets/count.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

TEST(Count, AnswersWithTheShareOfTheMarkedToken) {
  Sample sample = {.tokens = {1, 5, 1, 2}};
  count_generator({}).answer(sample, {});
  EXPECT_EQ(sample.values, std::vector<float>{0.5F});
  EXPECT_TRUE(sample.targets.empty());
}

TEST(Count, AnswersWithHowAlikeTheSharesOfAPairAre) {
  Sample sample = {.tokens = {1, 1, 1, 2}, .second = {2, 1}};
  count_generator({.pairs = true}).answer(sample, {});
  EXPECT_EQ(sample.values, std::vector<float>{0.75F});
}

TEST(Count, RefusesTheWrongNumberOfSequences) {
  Sample one = {.tokens = {1}}, two = {.tokens = {1}, .second = {2}}, none;
  const Place place{"f", 2};
  EXPECT_EQ(error_of([&] { count_generator({.pairs = true}).answer(one, place); }),
            "f:2: no second sequence");
  EXPECT_EQ(error_of([&] { count_generator({}).answer(two, place); }),
            "f:2: a second sequence, expected one");
  EXPECT_EQ(error_of([&] { count_generator({}).answer(none, place); }), "f:2: no tokens");
}

TEST(Count, EveryShareIsEquallyLikely) {
  const auto splits =
      generate(count_generator({.train = 2000, .valid = 1, .test = 1, .words = 3, .length = 4}), 1);
  EXPECT_EQ(splits.vocabulary, 5);
  EXPECT_EQ(splits.train->values(), 1);
  std::vector<int> seen(5);
  for (int64_t i = 0; i < 2000; ++i)
    ++seen[static_cast<size_t>(4 * splits.train->get(i).values[0])];
  for (const auto count : seen) EXPECT_NEAR(count, 400, 4 * 18);  // four deviations
}

}  // namespace
}  // namespace longbow

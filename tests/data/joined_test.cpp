#include "longbow/data/samples/joined.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

Splits pairs() {
  const auto list = std::make_shared<SampleList>(
      std::vector<Sample>{{.tokens = {1, 2}, .targets = {0, 1}, .second = {3, 4, 5}},
                          {.tokens = {6}, .targets = {kIgnore, kIgnore}, .second = {7}}},
      false);
  return {.train = list,
          .valid = list,
          .test = list,
          .vocabulary = 8,
          .max_length = 3,
          .symbols = {"<pad>", "a", "b", "c", "d", "e", "f", "g"}};
}

TEST(Joined, IsFirstSeparatorSecondWithSegments) {
  const auto splits = joined(pairs(), Answers::classes);
  EXPECT_EQ(splits.vocabulary, 9);
  EXPECT_EQ(splits.separator, 8);
  EXPECT_EQ(pairs().separator, 0) << "nothing is joined";
  EXPECT_EQ(splits.symbols.back(), "<sep>");
  EXPECT_EQ(splits.max_length, 2 + 1 + 3);
  EXPECT_EQ(splits.train->length(0), 6);
  EXPECT_EQ(splits.test->length(1), 3);
  EXPECT_FALSE(splits.train->has_second());
  EXPECT_TRUE(splits.train->has_segments());
  const auto sample = splits.train->get(0);
  EXPECT_EQ(sample.tokens, (std::vector<int32_t>{1, 2, 8, 3, 4, 5}));
  EXPECT_EQ(sample.segments, (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(sample.targets, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(sample.second.empty());
}

TEST(Joined, PlacesInTheSecondSequenceMoveAlong) {
  const auto splits = joined(pairs(), Answers::places);
  EXPECT_EQ(splits.train->targets(), 2);
  EXPECT_EQ(splits.train->get(0).targets, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(splits.train->get(1).targets, (std::vector<int32_t>{kIgnore, kIgnore}));
}

TEST(Joined, WantsPairs) {
  auto splits = pairs();
  splits.train = std::make_shared<SampleList>(std::vector<Sample>{{.tokens = {1}}}, false);
  EXPECT_THROW(joined(splits, Answers::classes), std::invalid_argument);
}

}  // namespace
}  // namespace longbow

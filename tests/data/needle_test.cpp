#include "longbow/data/sets/needle.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/folder.h"

namespace longbow {
namespace {

// The marker is 1, filler words are 2 and 3, answer words from 4 on.
std::string answered(Sample& sample) {
  const auto generator = needle_generator({.words = 2, .answers = 2});
  return error_of([&] { generator.answer(sample, {"f", 2}); });
}

TEST(Needle, AnswersWithThePlacesAfterTheMarker) {
  Sample inside = {.tokens = {4, 2, 1, 4, 5, 3, 4}}, at_end = {.tokens = {1, 5}};
  EXPECT_EQ(answered(inside), "no error");
  EXPECT_EQ(inside.targets, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(answered(at_end), "no error");
  EXPECT_EQ(at_end.targets, (std::vector<int32_t>{1, 1}));
}

TEST(Needle, RefusesSamplesWithoutASpan) {
  Sample two = {.tokens = {1, 4, 1}}, none = {.tokens = {4}}, bare = {.tokens = {1, 2, 4}};
  EXPECT_EQ(answered(two), "f:2: a sample needs exactly one marker");
  EXPECT_EQ(answered(none), "f:2: a sample needs exactly one marker");
  EXPECT_EQ(answered(bare), "f:2: no answer word follows the marker");
}

TEST(Needle, SpansHaveEveryWidthAndStandAnywhere) {
  const auto splits = generate(
      needle_generator({.train = 1000, .valid = 1, .test = 1, .length = 9, .width = 3}), 1);
  EXPECT_EQ(splits.train->targets(), 2);
  std::vector<int> widths(4), starts(9);
  for (int64_t i = 0; i < 1000; ++i) {
    const auto targets = splits.train->get(i).targets;
    ++widths.at(static_cast<size_t>(targets[1] - targets[0] + 1));
    ++starts.at(static_cast<size_t>(targets[0]));
  }
  EXPECT_GT(*std::min_element(widths.begin() + 1, widths.end()), 250);
  EXPECT_EQ(starts[0], 0);
  EXPECT_GT(*std::min_element(starts.begin() + 1, starts.end()), 20);
}

TEST(Needle, RefusesSpansThatDoNotFit) {
  EXPECT_EQ(error_of([] { needle_generator({.length = 20, .length_min = 4, .width = 4}); }),
            "width is 4, but a marker and so many tokens do not fit into 4; raise the length or "
            "lower width");
  EXPECT_EQ(error_of([] { needle_generator({.length = 20, .length_min = 21}); }),
            "length_min is 21, above length, 20; lower it, or raise length");
}

}  // namespace
}  // namespace longbow

#include "longbow/data/samples/dataset.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

using Targets = MemoryDataset::Targets;

std::shared_ptr<MemoryDataset> classes(const std::vector<std::vector<int32_t>>& rows) {
  auto dataset = std::make_shared<MemoryDataset>(Targets::one_class);
  for (const auto& row : rows) dataset->add(row, std::vector<int32_t>{row.front() % 3});
  return dataset;
}

TEST(Dataset, GivesBackWhatWasAdded) {
  auto dataset = classes({{1, 2, 3}, {65535}, {4, 5}});
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->length(0), 3);
  EXPECT_EQ(dataset->get(1).tokens, std::vector<int32_t>{65535});
  EXPECT_EQ(dataset->get(2).tokens, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(dataset->get(2).targets, std::vector<int32_t>{1});
  EXPECT_FALSE(dataset->per_token());
}

TEST(Dataset, KeepsOneTargetPerToken) {
  MemoryDataset dataset(Targets::per_token);
  dataset.add(std::vector{7, 8}, std::vector<int32_t>{kIgnore, 1});
  dataset.add(std::vector{9}, std::vector<int32_t>{0});
  EXPECT_EQ(dataset.get(0).targets, (std::vector<int32_t>{kIgnore, 1}));
  EXPECT_EQ(dataset.get(1).targets, std::vector<int32_t>{0});
  EXPECT_TRUE(dataset.per_token());
}

TEST(Dataset, HasAChecksumThatEveryTokenTargetAndBoundaryChanges) {
  auto sum = classes({{1, 2, 3}, {4}})->checksum();
  EXPECT_EQ(sum.size(), 64);
  EXPECT_EQ(classes({{1, 2, 3}, {4}})->checksum(), sum);
  EXPECT_NE(classes({{1, 2, 4}, {4}})->checksum(), sum);
  EXPECT_NE(classes({{1, 2}, {3, 4}})->checksum(), sum);
  EXPECT_NE(classes({{4}, {1, 2, 3}})->checksum(), sum);
}

TEST(Dataset, HasAChecksumThatEveryPartOfASampleChanges) {
  const Sample sample = {
      .tokens = {1, 2}, .targets = {3}, .second = {4}, .segments = {0, 1}, .values = {0.5F}};
  const auto sum = [](const Sample& one) { return SampleList({one}, false).checksum(); };
  auto wide = sample, target = sample, second = sample, segment = sample, value = sample;
  wide.tokens[0] += 65536;
  target.targets[0] = 2;
  second.second = {4, 4};
  segment.segments[1] = 0;
  value.values[0] = -0.5F;
  for (const auto& other : {wide, target, second, segment, value})
    EXPECT_NE(sum(other), sum(sample));
}

TEST(Dataset, IsCutOnTheRightAndCounted) {
  Splits splits;
  set_splits(splits, classes({{1, 2, 3}, {4, 5}}), classes({{6}}), classes({{7, 8, 9, 10}}));
  EXPECT_EQ(splits.max_length, 4);
  EXPECT_EQ(splits.checksums.size(), 3);
  EXPECT_EQ(truncate(splits, 0).truncated, 0);
  EXPECT_EQ(truncate(splits, 4).truncated, 0);
  auto cut = truncate(splits, 2);
  EXPECT_EQ(cut.truncated, 2);
  EXPECT_EQ(cut.max_length, 2);
  EXPECT_EQ(cut.test->length(0), 2);
  EXPECT_EQ(cut.test->get(0).tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(cut.test->get(0).targets, std::vector<int32_t>{1});
  EXPECT_EQ(cut.train->get(1).tokens, (std::vector<int32_t>{4, 5}));
}

TEST(SampleList, KnowsWhatItsSamplesHold) {
  const SampleList list({{.tokens = {1, 2, 3},
                          .targets = {4, 5},
                          .second = {6, 7, 8, 9},
                          .segments = {0, 0, 1},
                          .values = {0.5F}}},
                        false);
  EXPECT_EQ(list.length(0), 4) << "the longer sequence";
  EXPECT_EQ(list.targets(), 2);
  EXPECT_EQ(list.values(), 1);
  EXPECT_TRUE(list.has_second());
  EXPECT_TRUE(list.has_segments());
  EXPECT_THROW(SampleList({{.tokens = {1}, .targets = {1}}, {.tokens = {1}}}, false),
               std::invalid_argument);
}

}  // namespace
}  // namespace longbow

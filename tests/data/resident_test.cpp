#include "longbow/data/feed/resident.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace longbow {
namespace {

const std::vector<Sample> kSamples = {
    {.tokens = {1, 2, 3},
     .targets = {4, 5},
     .second = {6, 7, 8, 9},
     .segments = {0, 0, 1},
     .values = {0.5F}},
    {.tokens = {2}, .targets = {6, 7}, .second = {3}, .segments = {1}, .values = {-2.0F}},
    {.tokens = {5, 6, 7, 8},
     .targets = {1, 2},
     .second = {4, 4, 4, 4},
     .segments = {1, 0, 1, 0},
     .values = {1.5F}},
};

void expect_same(Batch got, Batch want) {
  EXPECT_EQ(got.samples, want.samples);
  EXPECT_EQ(got.real_tokens, want.real_tokens);
  EXPECT_EQ(got.padded, want.padded);
  EXPECT_EQ(got.after, want.after);
  EXPECT_EQ(got.epoch, want.epoch);
  const auto ours = got.tensors(), theirs = want.tensors();
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i]->scalar_type(), theirs[i]->scalar_type()) << i;
    EXPECT_TRUE(at::equal(*ours[i], *theirs[i])) << i << ": " << *ours[i] << *theirs[i];
  }
}

void expect_batches_of(const Dataset& dataset) {
  const ResidentData resident(dataset, at::kCPU);
  const std::vector<Plan> plans = {
      {.indices = {2, 0, 1}, .padded_length = 6, .epoch = 3, .index = 1, .after = {3, 2}},
      {.indices = {1, 1}, .padded_length = 4},
      {.indices = {2}, .padded_length = 4}};
  for (const auto& plan : plans) expect_same(resident.batch(plan), collate(dataset, plan));
}

TEST(ResidentData, GathersWhatCollateGives) {
  expect_batches_of(SampleList(kSamples, false));
}

TEST(ResidentData, GathersOneClassATokenOrASequence) {
  MemoryDataset one(MemoryDataset::Targets::one_class), each(MemoryDataset::Targets::per_token);
  for (const auto& sample : kSamples) {
    one.add(sample.tokens, std::vector<int32_t>{sample.targets.front()});
    std::vector<int32_t> targets(sample.tokens.size(), kIgnore);
    targets.back() = sample.targets.back();
    each.add(sample.tokens, targets);
  }
  expect_batches_of(one);
  expect_batches_of(each);
}

TEST(ResidentData, TakesNoMoreThanItSays) {
  // Rows of 4, 1 and 4 tokens: tokens, second and segments, each with a start and a size; two
  // targets and a value.
  const SampleList list(kSamples, false);
  EXPECT_EQ(resident_bytes(list), (4 + 1 + 4) * 4 * 3 + 3 * (3 * 16 + 2 * 8 + 4));
}

}  // namespace
}  // namespace longbow

#include "longbow/data/feed/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "longbow/core/seed.h"
#include "tests/data/folder.h"

namespace longbow {
namespace {

std::vector<int64_t> some_lengths(int64_t count) {
  Stream stream(1, "lengths");
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + stream.below(300));
  return lengths;
}

std::vector<Plan> take(Sampler& sampler, int64_t count) {
  std::vector<Plan> plans;
  for (int64_t i = 0; i < count; ++i) plans.push_back(sampler.next());
  return plans;
}

void expect_equal(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.padded_length, b.padded_length);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.after, b.after);
}

std::vector<int64_t> indices(const std::vector<Plan>& plans) {
  std::vector<int64_t> all;
  for (const auto& plan : plans) all.insert(all.end(), plan.indices.begin(), plan.indices.end());
  return all;
}

TEST(Sampler, GivesEverySampleOnceAnEpoch) {
  Sampler sampler(some_lengths(1000), {.batch_size = 16}, 1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    auto plans = take(sampler, sampler.batches_per_epoch());
    auto all = indices(plans);
    std::ranges::sort(all);
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
    EXPECT_EQ(plans.front().epoch, epoch);
    EXPECT_EQ(plans.back().epoch, epoch);
    EXPECT_EQ(plans.back().after, (SamplerPosition{epoch + 1, 0}));
  }
}

TEST(Sampler, PadsABatchToTheEndOfItsBucket) {
  const auto lengths = some_lengths(1000);
  Sampler sampler(lengths, {.batch_size = 16, .bucket = 32}, 1);
  for (const auto& plan : take(sampler, sampler.batches_per_epoch())) {
    EXPECT_EQ(plan.padded_length % 32, 0);
    EXPECT_LE(plan.indices.size(), 16);
    for (auto i : plan.indices) {
      EXPECT_LE(lengths[static_cast<size_t>(i)], plan.padded_length);
      EXPECT_GT(lengths[static_cast<size_t>(i)], plan.padded_length - 32);
    }
  }
}

TEST(Sampler, TakesExplicitBucketEnds) {
  Sampler sampler({1, 10, 11, 50, 9}, {.batch_size = 8, .lengths = {10, 50}, .shuffle = false}, 1);
  ASSERT_EQ(sampler.batches_per_epoch(), 2);
  auto plans = take(sampler, 2);
  EXPECT_EQ(plans[0].padded_length, 10);
  EXPECT_EQ(plans[0].indices, (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(plans[1].padded_length, 50);
  EXPECT_EQ(plans[1].indices, (std::vector<int64_t>{2, 3}));
}

TEST(Sampler, FillsBatchesUpToANumberOfTokens) {
  const auto lengths = some_lengths(1000);
  Sampler sampler(lengths, {.batch_size = 7, .batch_tokens = 640, .bucket = 32}, 1);
  auto plans = take(sampler, sampler.batches_per_epoch());
  std::set<size_t> full;
  for (const auto& plan : plans) {
    const auto most = 640 / plan.padded_length;
    EXPECT_LE(std::ssize(plan.indices), most);
    if (std::ssize(plan.indices) == most) full.insert(plan.indices.size());
  }
  EXPECT_EQ(full, (std::set<size_t>{2, 3, 4, 5, 6, 10, 20})) << "of 320 … 32 tokens";
  auto all = indices(plans);
  std::ranges::sort(all);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_EQ(plans.back().after, (SamplerPosition{1, 0}));
  Sampler small({5, 900, 900}, {.batch_tokens = 100, .bucket = 100}, 1);
  EXPECT_EQ(small.batches_per_epoch(), 3) << "a sample above the budget is a batch of its own";
}

TEST(Sampler, KeepsOrDropsPartialBatches) {
  const std::vector<int64_t> lengths(10, 5);
  Sampler keeps(lengths, {.batch_size = 4}, 1);
  Sampler drops(lengths, {.batch_size = 4, .drop_last = true}, 1);
  EXPECT_EQ(keeps.batches_per_epoch(), 3);
  EXPECT_EQ(drops.batches_per_epoch(), 2);
  EXPECT_EQ(indices(take(keeps, 3)).size(), 10);
  for (const auto& plan : take(drops, 10)) EXPECT_EQ(plan.indices.size(), 4);
}

TEST(Sampler, ChangesItsOrderEveryEpochButNotItsEpochs) {
  Sampler sampler(some_lengths(200), {.batch_size = 8}, 1), again = sampler;
  auto batches = sampler.batches_per_epoch();
  auto first = take(sampler, batches), second = take(sampler, batches);
  EXPECT_NE(indices(first), indices(second));
  EXPECT_EQ(indices(take(again, batches)), indices(first));
  Sampler other(some_lengths(200), {.batch_size = 8}, 2);
  EXPECT_NE(indices(take(other, batches)), indices(first));
}

TEST(Sampler, MixesTheLengthsOfAnEpoch) {
  Sampler sampler(some_lengths(1000), {.batch_size = 16}, 1);
  auto plans = take(sampler, sampler.batches_per_epoch());
  EXPECT_FALSE(std::ranges::is_sorted(plans, {}, &Plan::padded_length));
  std::set<int64_t> early;
  for (size_t i = 0; i < 10; ++i) early.insert(plans[i].padded_length);
  EXPECT_GT(early.size(), 2);
}

TEST(Sampler, KeepsTheGivenOrderWithoutShuffle) {
  Sampler sampler(std::vector<int64_t>(7, 5), {.batch_size = 3, .shuffle = false}, 1);
  EXPECT_EQ(indices(take(sampler, 3)), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Sampler, ResumesExactlyAtAnyPosition) {
  const auto lengths = some_lengths(150);
  const SamplerConfig config{.batch_size = 8};
  Sampler sampler(lengths, config, 1);
  auto whole = take(sampler, 3 * sampler.batches_per_epoch());
  SamplerPosition start;
  for (size_t from = 0; from < whole.size(); ++from) {
    Sampler resumed(lengths, config, 1);
    resumed.seek(start);
    EXPECT_EQ(resumed.position(), start);
    for (size_t i = from; i < std::min(from + 5, whole.size()); ++i)
      expect_equal(resumed.next(), whole[i]);
    start = whole[from].after;
  }
}

TEST(Sampler, SaysWhatItCannotDo) {
  EXPECT_EQ(
      error_of([] {
        Sampler({5, 60}, {.lengths = {10, 50}}, 1);
      }),
      "train.lengths ends at 50, but a sample has 60 tokens; add a longer one, or cut the samples "
      "with data.max_tokens");
  const SamplerConfig placed = {.lengths = {10, 50},
                                .places = parse_yaml("carry: false\nlengths: [10, 50]", "a.yaml")};
  EXPECT_EQ(error_of([&] {
              Sampler({5, 60}, placed, 1);
            }),
            "a.yaml:2: train.lengths ends at 50, but a sample has 60 tokens; add a longer one, or "
            "cut the samples with data.max_tokens");
  EXPECT_EQ(error_of([] {
              Sampler({5}, {.lengths = {50, 50}}, 1);
            }),
            "train.lengths does not rise; write them from the shortest to the longest, each once");
  EXPECT_EQ(error_of([] {
              Sampler({5, 100}, {.batch_size = 2, .drop_last = true}, 1);
            }),
            "no full batch of 2 in 2 samples; lower batch_size, widen bucket, or set drop_last: "
            "false");
  Sampler sampler({5, 5, 5}, {.batch_size = 2}, 1);
  EXPECT_EQ(error_of([&] {
              sampler.seek({1, 3});
            }),
            "batch 3 of epoch 1 does not exist, an epoch has 2; was the checkpoint made with other "
            "data or other batches?");
  EXPECT_EQ(sampler.position(), SamplerPosition{});
}

TEST(Sampler, RowsThatGoOnHoldTheTextInOrder) {
  const std::vector<int64_t> lengths = {9, 9, 9, 9, 9, 9, 9, 9, 9, 4};
  Sampler sampler(lengths, {.batch_size = 4, .bucket = 3, .carry = true}, 1);
  ASSERT_EQ(sampler.batches_per_epoch(), 3);
  const auto plans = take(sampler, 4);
  EXPECT_EQ(plans[0].indices, (std::vector<int64_t>{0, 3, 6, 9}));
  EXPECT_EQ(plans[1].indices, (std::vector<int64_t>{1, 4, 7}));
  EXPECT_EQ(plans[2].indices, (std::vector<int64_t>{2, 5, 8}));
  EXPECT_EQ(plans[3].indices, plans[0].indices) << "the next epoch";
  EXPECT_EQ(plans[0].padded_length, 9);
  EXPECT_EQ(plans[2].after, (SamplerPosition{1, 0}));
  Sampler full(lengths, {.batch_size = 4, .bucket = 3, .drop_last = true, .carry = true}, 1);
  ASSERT_EQ(full.batches_per_epoch(), 2);
  EXPECT_EQ(full.next().indices, (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(full.next().indices, (std::vector<int64_t>{1, 3, 5, 7}));
  Sampler few({5, 5, 5}, {.batch_size = 8, .bucket = 1, .carry = true}, 1);
  EXPECT_EQ(few.next().indices, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Sampler, RowsThatGoOnAreAsManyInEveryBatch) {
  EXPECT_EQ(error_of([] {
              Sampler({5, 5}, {.batch_tokens = 64, .carry = true}, 1);
            }),
            "carry: rows that go on need the same number of them in every batch; set batch_size "
            "instead of batch_tokens");
}

}  // namespace
}  // namespace longbow

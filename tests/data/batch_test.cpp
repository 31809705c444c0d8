#include "longbow/data/feed/batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace longbow {
namespace {

using Targets = MemoryDataset::Targets;

std::vector<int64_t> values(const at::Tensor& tensor) {
  EXPECT_EQ(tensor.scalar_type(), at::kLong);
  auto* data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

TEST(Batch, PadsTokensOnTheRight) {
  MemoryDataset dataset(Targets::one_class);
  dataset.add(std::vector{1, 2, 3}, std::vector<int32_t>{7});
  dataset.add(std::vector{9}, std::vector<int32_t>{8});
  auto batch =
      collate(dataset, {.indices = {1, 0}, .padded_length = 4, .epoch = 2, .after = {2, 5}});
  EXPECT_EQ(batch.tokens.sizes(), (at::IntArrayRef{2, 4}));
  EXPECT_EQ(values(batch.tokens), (std::vector<int64_t>{9, 0, 0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(values(batch.lengths), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(values(batch.targets), (std::vector<int64_t>{8, 7}));
  EXPECT_EQ(batch.samples, 2);
  EXPECT_TRUE(batch.padded);
  EXPECT_FALSE(collate(dataset, {.indices = {1, 1}, .padded_length = 1}).padded);
  EXPECT_EQ(batch.real_tokens, 4);
  EXPECT_EQ(batch.epoch, 2);
  EXPECT_EQ(batch.after, (SamplerPosition{2, 5}));
}

TEST(Batch, IgnoresPositionsWithoutTarget) {
  MemoryDataset dataset(Targets::per_token);
  dataset.add(std::vector{1, 2}, std::vector<int32_t>{kIgnore, 5});
  dataset.add(std::vector{3}, std::vector<int32_t>{6});
  auto batch = collate(dataset, {.indices = {0, 1}, .padded_length = 3});
  EXPECT_EQ(values(batch.targets), (std::vector<int64_t>{-100, 5, -100, 6, -100, -100}));
  EXPECT_EQ(batch.targets.sizes(), (at::IntArrayRef{2, 3}));
}

TEST(Batch, HoldsPairsSegmentsAndValues) {
  const SampleList list(
      {{.tokens = {1, 2, 3},
        .targets = {4, 5},
        .second = {6, 7, 8, 9},
        .segments = {0, 0, 1},
        .values = {0.5F}},
       {.tokens = {2}, .targets = {6, 7}, .second = {3}, .segments = {1}, .values = {-2.0F}}},
      false);
  const auto batch = collate(list, {.indices = {0, 1}, .padded_length = 4});
  EXPECT_EQ(batch.targets.sizes(), (at::IntArrayRef{2, 2}));
  EXPECT_EQ(values(batch.targets), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(values(batch.second), (std::vector<int64_t>{6, 7, 8, 9, 3, 0, 0, 0}));
  EXPECT_EQ(values(batch.second_lengths), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(values(batch.segments), (std::vector<int64_t>{0, 0, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.values.sizes(), (at::IntArrayRef{2, 1}));
  EXPECT_EQ(batch.values[1][0].item<float>(), -2.0F);
  EXPECT_EQ(batch.real_tokens, 9);
}

TEST(Batch, HoldsReferencesInTheOrderOfItsSamples) {
  const SampleList list({{.tokens = {1, 2, 3}, .reference = "Eins"},
                         {.tokens = {2}, .reference = ""},
                         {.tokens = {3}, .reference = "Drei vier"}},
                        false);
  const auto batch = collate(list, {.indices = {2, 1, 0}, .padded_length = 3});
  EXPECT_EQ(batch.references, (std::vector<std::string>{"Drei vier", "", "Eins"}));
  EXPECT_EQ(batch.to(at::kCPU).references, batch.references);
  const SampleList bare({{.tokens = {1}}}, false);
  EXPECT_TRUE(collate(bare, {.indices = {0}, .padded_length = 1}).references.empty());
  EXPECT_THROW(SampleList({{.tokens = {1}, .reference = "Eins"}, {.tokens = {2}}}, false),
               std::invalid_argument);
}

struct Wrong final : Dataset {
  int64_t size() const override { return 1; }
  int64_t length(int64_t) const override { return 2; }
  Sample get(int64_t) const override { return {.tokens = {1, 2}, .targets = {1, 2}}; }
};

std::string error(const Plan& plan) {
  try {
    collate(Wrong(), plan);
  } catch (const c10::Error& failure) {
    return failure.what_without_backtrace();
  }
  return "no error";
}

TEST(Batch, RefusesSamplesThatDoNotFit) {
  EXPECT_EQ(error({.indices = {0}, .padded_length = 1}),
            "collate: a sample of 2 tokens in a batch of length 1");
  EXPECT_EQ(error({.indices = {0}, .padded_length = 2}),
            "collate: a sample of 2 tokens has 2 targets, expected 1");
}

}  // namespace
}  // namespace longbow

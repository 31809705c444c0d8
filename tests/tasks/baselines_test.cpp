#include <gtest/gtest.h>

#include <cmath>

#include "longbow/data/sets/listops.h"
#include "longbow/data/sets/markov.h"
#include "longbow/data/sets/reverse.h"
#include "longbow/tasks/task.h"

namespace longbow {
namespace {

using namespace listops;

std::shared_ptr<MemoryDataset> expressions(const std::vector<std::pair<uint8_t, int32_t>>& rows) {
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::one_class);
  for (const auto& [root, target] : rows)
    data->add(std::vector<int32_t>{root, kZero, kZero, kClose}, std::vector<int32_t>{target});
  return data;
}

TEST(Baselines, AreLearntOnTrainAndScoredOnTest) {
  Splits splits = {.classes = 10};
  splits.train = expressions({{kMin, 1}, {kMin, 1}, {kMin, 4}, {kMax, 9}, {kMax, 9}, {kMax, 9}});
  splits.test = expressions({{kMin, 1}, {kMin, 4}, {kMax, 9}, {kMax, 1}, {kMedian, 0}});
  const auto rows = baselines({.name = "listops"}, "classification", splits);
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].name, "majority class");
  EXPECT_DOUBLE_EQ(rows[0].score, 1.0 / 5) << "always 9";
  EXPECT_EQ(rows[1].name, "root operator only");
  EXPECT_DOUBLE_EQ(rows[1].score, 3.0 / 5) << "1 for MIN, 9 for MAX, 0 for what was never seen";
  EXPECT_EQ(rows[2].name, "operators to depth 1");
  EXPECT_DOUBLE_EQ(rows[2].score, 1.0 / 5) << "all of them are 0";
}

TEST(Baselines, ThereAreNoneWhereNoneIsHonest) {
  const auto data = make_reverse({.train = 4, .valid = 2, .test = 2}, 1);
  for (const auto* objective : {"classification", "regression", "span", "masked_lm"})
    EXPECT_TRUE(baselines({.name = "reverse"}, objective, data).empty()) << objective;
}

TEST(Baselines, WordsAreAsLikelyAsTheyAreFrequent) {
  const auto data = [](std::vector<std::vector<int32_t>> rows) {
    std::vector<Sample> samples;
    for (const auto& row : rows) samples.push_back({.tokens = {1}, .second = row});
    return std::make_shared<SampleList>(samples, false);
  };
  // Of words 1, 2, 3, counted once more than they occur: 3, 2 and 1 of 6.
  const Splits splits = {.train = data({{1, 1}, {2}}),
                         .test = data({{1, 3}}),
                         .vocabulary = 9,
                         .second_vocabulary = 4};
  const auto rows = baselines({.name = "reverse"}, "translation", splits);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].metric, "perplexity");
  EXPECT_FALSE(rows[0].larger_is_better);
  EXPECT_NEAR(rows[0].score, std::sqrt(2.0 * 6.0), 1e-12);
}

TEST(Baselines, OfAChainTheLeastPerplexityIsKnown) {
  const MarkovConfig chain = {.train = 20, .test = 20, .length = 9};
  const DataConfig config = {.name = "markov", .options = written(chain)};
  const auto rows = baselines(config, "causal_lm", load_data(config));
  ASSERT_EQ(rows.size(), 3u);
  const auto entropy = markov_entropy(MarkovChain(chain, config.seed));
  EXPECT_EQ(rows[1].name, "last word only");
  EXPECT_NEAR(rows[1].score, std::exp(entropy.given_one), 1e-12);
  EXPECT_EQ(rows[2].name, "entropy of the chain");
  EXPECT_NEAR(rows[2].score, std::exp((entropy.given_one + 7 * entropy.rate) / 8), 1e-12);
  EXPECT_GT(rows[0].score, rows[1].score);
}

TEST(Baselines, IgnoreTokensWithoutATarget) {
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  data->add(std::vector<int32_t>{5, 6, 7, 8}, std::vector<int32_t>{kIgnore, 2, kIgnore, 1});
  data->add(std::vector<int32_t>{5, 6}, std::vector<int32_t>{2, kIgnore});
  const auto rows =
      baselines({.name = "recall"}, "classification", {.train = data, .test = data, .classes = 3});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].score, 2.0 / 3);
}

}  // namespace
}  // namespace longbow

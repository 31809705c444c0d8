#include <gtest/gtest.h>

#include "longbow/data/listops.h"
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
  const auto rows = baselines({.name = "listops"}, splits);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "majority class");
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 1.0 / 5) << "always 9";
  EXPECT_EQ(rows[1].name, "root operator only");
  EXPECT_DOUBLE_EQ(rows[1].accuracy, 3.0 / 5) << "1 for MIN, 9 for MAX, 0 for what was never seen";
}

TEST(Baselines, ThereAreNoneWhereSamplesHaveNoClass) {
  EXPECT_TRUE(
      baselines({.name = "reverse"}, make_reverse({.train = 4, .valid = 2, .test = 2}, 1)).empty());
}

TEST(Baselines, IgnoreTokensWithoutATarget) {
  auto data = std::make_shared<MemoryDataset>(MemoryDataset::Targets::per_token);
  data->add(std::vector<int32_t>{5, 6, 7, 8}, std::vector<int32_t>{kIgnore, 2, kIgnore, 1});
  data->add(std::vector<int32_t>{5, 6}, std::vector<int32_t>{2, kIgnore});
  const auto rows = baselines({.name = "recall"}, {.train = data, .test = data, .classes = 3});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 2.0 / 3);
}

}  // namespace
}  // namespace longbow

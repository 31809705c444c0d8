#include "longbow/ops/level_starts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(LevelStarts, AreTheFirstTokensOfClusters) {
  const auto x = random_normal({2, 3, 7, 5}, 1);
  const auto got = level_starts(x, {6, 2, 2});
  ASSERT_EQ(got.size(2), 10);
  const std::vector<int64_t> tokens = {0, 2, 4, 6, -1, -1, 0, 4, 0, -1};
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = got.select(2, static_cast<int64_t>(i));
    EXPECT_TRUE(row.equal(tokens[i] < 0 ? at::zeros_like(row) : x.select(2, tokens[i]))) << i;
  }
}

TEST(LevelStarts, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({1, 2, 7, 2}, 1).requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return level_starts(x, {4, 3, 1}).exp(); }, {{"x", x}}));
}

TEST(LevelStarts, IsRegistered) {
  EXPECT_EQ(missing_kernels("level_starts"), "");
  EXPECT_EQ(missing_kernels("level_starts_backward"), "");
}

TEST(LevelStarts, NamesWhatDoesNotFit) {
  EXPECT_NE(error_of([] {
              level_starts(at::zeros({1, 6, 2}), {3});
            }).find("level_starts: x is [1, 6, 2] for levels of [3]"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              level_starts(at::zeros({1, 1, 6, 2}), {2});
            }).find("level_starts: a level of 3 rows has room for 2"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

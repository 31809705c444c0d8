#include "longbow/ops/members.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

// Two clusters of two members among four tokens; the first is in both, the last in none.
Members some() {
  return Members::of(at::tensor({0, 2, 1, 0}, at::kLong).view({1, 1, 2, 2}), 4);
}

TEST(Members, StandWhereTheirTokensSay) {
  EXPECT_TRUE(
      some().place.equal(at::tensor({0, -1, 1, -1, 3, 2, -1, -1}, at::kInt).view({1, 1, 2, 4})));
}

TEST(Members, AreTakenAndSummed) {
  const auto x = random_normal({1, 1, 4, 3}, 1);
  const auto row = [](const Tensor& of, int64_t i) { return of[0][0][i]; };
  const auto taken = take_members(x, some());
  EXPECT_TRUE(taken.equal(x.index_select(2, at::tensor({0, 2, 1, 0}, at::kLong))));
  const auto sums = sum_members(taken, some());
  EXPECT_NEAR_TENSOR(row(sums, 0), 2 * row(x, 0), tolerance(at::kDouble));
  EXPECT_TRUE(row(sums, 2).equal(row(x, 2)));
  EXPECT_TRUE(row(sums, 3).equal(at::zeros_like(row(x, 3))));
  const auto means = sum_members(taken, some(), 0.0), more = sum_members(taken, some(), 0.5);
  EXPECT_NEAR_TENSOR(row(means, 0), row(x, 0), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(row(more, 0), 2 * row(x, 0) / 2.5, tolerance(at::kDouble));
}

TEST(Members, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({1, 1, 4, 3}, 1).requires_grad_();
  for (const Divided added : {Divided(), Divided(0.0), Divided(0.5)}) {
    EXPECT_TRUE(gradcheck([&] { return take_members(x, some(), added).exp(); }, {{"x", x}}));
    EXPECT_TRUE(gradcheck([&] { return sum_members(x, some(), added).exp(); }, {{"x", x}}));
  }
}

TEST(Members, AreRegistered) {
  EXPECT_EQ(missing_kernels("take_members"), "");
  EXPECT_EQ(missing_kernels("sum_members"), "");
}

TEST(Members, NameWhatDoesNotFit) {
  EXPECT_NE(error_of([] {
              take_members(at::zeros({1, 1, 5, 3}), some());
            }).find("take_members: x is [1, 1, 5, 3] but members are [1, 1, 2, 2] of 4 tokens"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              sum_members(at::zeros({1, 2, 4, 3}), some());
            }).find("sum_members: x is [1, 2, 4, 3] but members are [1, 1, 2, 2] of 4 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/row_parts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(RowParts, AreViewsOfTheColumns) {
  const auto x = random_normal({2, 5, 9}, 1).requires_grad_();
  const auto parts = row_parts(x, {2, 3, 4});
  ASSERT_EQ(parts.size(), 3);
  EXPECT_TRUE(parts[1].equal(x.narrow(-1, 2, 3)));
  EXPECT_TRUE(parts[1].is_alias_of(x));
}

TEST(RowParts, GradientsBesideEachOtherAreNotCopied) {
  const auto x = random_normal({2, 5, 9}, 1).requires_grad_(),
             slopes = random_normal({2, 5, 11}, 2);
  const auto given = [&](const Tensor& from) {
    return std::vector<Tensor>{from.narrow(-1, 1, 2), from.narrow(-1, 3, 3), from.narrow(-1, 6, 4)};
  };
  const auto got = torch::autograd::grad(row_parts(x, {2, 3, 4}), {x}, given(slopes))[0];
  EXPECT_TRUE(got.is_alias_of(slopes));
  EXPECT_TRUE(got.equal(slopes.narrow(-1, 1, 9)));
  auto apart = given(slopes);
  apart[1] = apart[1].clone();
  const auto copied = torch::autograd::grad(row_parts(x, {2, 3, 4}), {x}, apart)[0];
  EXPECT_FALSE(copied.is_alias_of(slopes));
  EXPECT_TRUE(copied.equal(got));
}

TEST(RowParts, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 3, 5}, 1).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto parts = row_parts(x, {2, 3});
        return parts[0].exp().sum(-1) * parts[1].sum(-1);
      },
      {{"x", x}}));
}

TEST(RowParts, JoinWhatLiesBesideEachOther) {
  const auto x = random_normal({4, 9}, 1);
  const auto runs =
      joined_parts({x.narrow(1, 0, 2), x.narrow(1, 2, 3), x.narrow(1, 6, 2), x.narrow(1, 8, 1)});
  ASSERT_EQ(runs.size(), 2);
  EXPECT_TRUE(runs[0].equal(x.narrow(1, 0, 5)));
  EXPECT_TRUE(runs[1].equal(x.narrow(1, 6, 3)));
}

}  // namespace
}  // namespace longbow

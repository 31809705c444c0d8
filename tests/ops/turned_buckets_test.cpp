#include "longbow/ops/turned_buckets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(TurnedBuckets, AreTheLargestOfBothSignsOfEachFactor) {
  // Factors of 4 and 6: two directions and three.
  const auto y = at::tensor({0.5, -0.4, 0.1, 0.2, 0.3,    // 0 and 2
                             0.5, -0.6, 0.1, -0.2, 0.1})  // 2 + 1 and 3 + 1
                     .view({2, 5});
  EXPECT_TRUE(at::equal(turned_buckets(y, {4, 6}), at::tensor({0 + 4 * 2, 3 + 4 * 4}, at::kLong)));
}

TEST(TurnedBuckets, IsRegistered) {
  EXPECT_EQ(missing_kernels("turned_buckets", /*differentiable=*/false), "");
}

TEST(TurnedBuckets, NamesFactorsThatDoNotFit) {
  EXPECT_NE(error_of([] {
              turned_buckets(at::zeros({2, 5}), {4, 4});
            }).find("turned_buckets: y is [2, 5] for factors of [4, 4]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

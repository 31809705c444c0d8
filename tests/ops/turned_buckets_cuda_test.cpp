#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/turned_buckets.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(TurnedBucketsCuda, AreThoseOfTheFormula) {
  for (const std::vector<int64_t>& factors :
       {std::vector<int64_t>{2}, {16}, {16, 32}, {4, 2, 6}, {2, 2, 2, 2, 2, 2, 2, 2, 2}}) {
    int64_t columns = 0;
    for (const int64_t factor : factors) columns += factor / 2;
    const auto y = random_normal({3, 1000, columns}, 1).to(at::kFloat);
    EXPECT_TRUE(at::equal(turned_buckets(y.to(at::Device("cuda:0")), factors).cpu(),
                          turned_buckets(y, factors)))
        << factors;
  }
}

}  // namespace
}  // namespace longbow

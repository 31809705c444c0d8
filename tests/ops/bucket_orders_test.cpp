#include "longbow/ops/bucket_orders.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(BucketOrders, PutTokensOfABucketBesideEachOtherAsTheyStand) {
  const auto bucket = at::tensor({2, 0, 1, 0, 2, 0, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 6});
  const auto found = bucket_orders(bucket, 3);
  EXPECT_TRUE(at::equal(found.order,
                        at::tensor({1, 3, 5, 2, 0, 4, 4, 5, 0, 1, 2, 3}, at::kLong).view({2, 6})));
  EXPECT_TRUE(at::equal(found.inverse, found.order.argsort(-1, false)));
}

TEST(BucketOrders, IsRegistered) {
  EXPECT_EQ(missing_kernels("bucket_orders", /*differentiable=*/false), "");
}

TEST(BucketOrders, NamesWhatIsNoBucket) {
  EXPECT_NE(error_of([] {
              bucket_orders(at::zeros({2, 5}), 4);
            }).find("bucket_orders: bucket is Float [2, 5] of 4"),
            std::string::npos)
      << error_of([] {
           bucket_orders(at::zeros({2, 5}), 4);
         });
}

}  // namespace
}  // namespace longbow

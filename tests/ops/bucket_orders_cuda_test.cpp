#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/ops/bucket_orders.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(BucketOrdersCuda, AreThoseOfTheFormula) {
  for (const int64_t tokens : {1, 31, 32, 100, 513, 1500})
    for (const int64_t buckets : {1, 2, 9, 65, 1024, 1500}) {
      SCOPED_TRACE(c10::str(tokens, " in ", buckets));
      const auto bucket =
          random_normal({2, 3, tokens}, 1).mul(1000).to(at::kLong).remainder(buckets);
      const auto got = bucket_orders(bucket.to(at::Device("cuda:0")), buckets),
                 want = bucket_orders(bucket, buckets);
      EXPECT_TRUE(at::equal(got.order.cpu(), want.order));
      EXPECT_TRUE(at::equal(got.inverse.cpu(), want.inverse));
    }
}

}  // namespace
}  // namespace longbow

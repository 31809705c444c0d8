#include "longbow/nn/softmax/head_products.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(HeadProducts, AreThoseOfEachHead) {
  const auto weight = random_normal({3, 4, 5}, 2), added = random_normal({3, 1, 5}, 3);
  for (const auto& shape : {std::vector<int64_t>{2, 3, 6, 4}, {2, 3, 2, 6, 4}}) {
    const auto q = random_normal(shape, 1);
    const auto got = head_products(q, weight), more = head_products(q, weight, added);
    for (int64_t h = 0; h < 3; ++h) {
      const auto want = q.select(1, h).matmul(weight[h]);
      EXPECT_NEAR_TENSOR(got.select(1, h), want, tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(more.select(1, h), want + added[h], tolerance(at::kDouble));
    }
  }
}

}  // namespace
}  // namespace longbow

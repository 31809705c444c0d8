#include "longbow/ops/shared_heads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

TEST(SharedHeads, AreSummedBesideEachOther) {
  const auto a = random_normal({2, 3, 5, 4}, 1), b = random_normal({2, 3, 5, 4}, 2),
             c = random_normal({2, 1, 5, 7}, 3);
  const auto got = sum_heads({a, b, c}, {2, 1});
  ASSERT_EQ(got.sizes(), at::IntArrayRef({2, 5, 19}));
  for (const int64_t head : {0, 1, 2})
    EXPECT_NEAR_TENSOR(got.narrow(2, head * 4, 4), a.select(1, head) + b.select(1, head),
                       tolerance(at::kDouble));
  EXPECT_TRUE(got.narrow(2, 12, 7).equal(c.select(1, 0)));
  EXPECT_TRUE(got.equal(sum_heads_formula({a, b, c}, {2, 1})));
}

TEST(SharedHeads, GradientsAreThoseOfDifferences) {
  const auto a = random_normal({2, 3, 2, 2}, 1).requires_grad_(),
             b = random_normal({2, 3, 2, 2}, 2).requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return sum_heads({a, b}, {2}).exp(); }, {{"a", a}, {"b", b}}));
  EXPECT_TRUE(gradcheck(
      [&] {
        const auto views = shared_heads({a, b}, {2, 1});
        return views[0][0].exp() * views[1][0] + views[0][1].square();
      },
      {{"a", a}, {"b", b}}));
}

TEST(SharedHeads, AreRegistered) {
  EXPECT_EQ(missing_kernels("sum_heads"), "");
}

TEST(SharedHeads, NameWhatDoesNotFit) {
  const auto x = at::zeros({2, 3, 4, 5}), y = at::zeros({2, 3, 4, 6});
  EXPECT_NE(error_of([&] {
              sum_heads({x, y}, {2});
            })
                .find("sum_heads: a part of [2, 3, 4, 6] Float beside [2, 3, 4, 5] and [2, 3, 4, "
                      "5] Float"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              sum_heads({x, x}, {1});
            }).find("sum_heads: 2 parts for sums of [1]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              shared_heads({x}, {1, 2});
            }).find("shared_heads: 1 tensors, but readers of 2"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/blend.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Blend, WeighsChannelsOfFields) {
  const auto x = random_normal({2, 3, 5, 4}, 1), y = random_normal({2, 3, 5, 4}, 2),
             weights = random_normal({2, 3, 4}, 3);
  const auto got = blend({x, y}, weights);
  const auto want =
      at::einsum("bhnd,hd->bhnd", {x, weights[0]}) + at::einsum("bhnd,hd->bhnd", {y, weights[1]});
  EXPECT_NEAR_TENSOR(got, want, tolerance(at::kDouble));
}

TEST(Blend, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 3, 2, 2}, 1).requires_grad_(),
             y = random_normal({2, 3, 2, 2}, 2).requires_grad_(),
             weights = random_normal({2, 3, 2}, 3).requires_grad_();
  EXPECT_TRUE(gradcheck(
      [&] {
        return blend({x, y}, weights).exp();
      },
      {{"x", x}, {"y", y}, {"weights", weights}}));
}

TEST(Blend, IsRegistered) {
  EXPECT_EQ(missing_kernels("blend"), "");
  EXPECT_EQ(missing_kernels("blend_backward"), "");
}

TEST(Blend, NamesWhatDoesNotFit) {
  const auto x = at::zeros({2, 3, 5, 4});
  EXPECT_NE(error_of([&] {
              blend({x, x}, at::zeros({2, 3, 5}));
            })
                .find("blend: a field is [2, 3, 5, 4] Float, the first [2, 3, 5, 4], weights [2, "
                      "3, 5] Float"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              blend({}, at::zeros({2, 3}));
            }).find("blend: 0 fields, but weights are [2, 3]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

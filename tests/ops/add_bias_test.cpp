#include "longbow/ops/add_bias.h"

#include <ATen/ATen.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(AddBias, IsASum) {
  const auto x = random_normal({2, 3, 4}, 1), bias = random_normal({4}, 2);
  EXPECT_TRUE(at::equal(add_bias(x, bias), x + bias));
  EXPECT_TRUE(at::equal(add_bias(x.clone().requires_grad_(), bias), x + bias));
}

TEST(AddBias, GradientsAreThoseOfDifferences) {
  const auto x = random_normal({2, 3, 4}, 1).requires_grad_(),
             bias = random_normal({4}, 2).requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return add_bias(x, bias).exp(); }, {{"x", x}, {"bias", bias}}));
}

TEST(AddBias, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              add_bias(at::zeros({2, 3}), at::zeros({2}));
            }),
            "add_bias: x is [2, 3] Float but bias is [2] Float");
}

}  // namespace
}  // namespace longbow

#include "longbow/nn/softmax/order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Order, SortsByKeysAndKeepsTheOrderOfEqualOnes) {
  const auto order = Order::by(at::tensor({3, 1, 3, 0, 1}, at::kLong).unsqueeze(0));
  EXPECT_TRUE(at::equal(order.order, at::tensor({3, 1, 4, 0, 2}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(order.inverse, at::tensor({3, 1, 4, 0, 2}, at::kLong).unsqueeze(0)));
  const auto longer = Order::by(at::tensor({2, 0, 1}, at::kLong).unsqueeze(0));
  EXPECT_TRUE(at::equal(longer.order, at::tensor({1, 2, 0}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::equal(longer.inverse, at::tensor({2, 0, 1}, at::kLong).unsqueeze(0)));
}

TEST(Order, GoesThereAndBackWithItsGradients) {
  const auto keys = random_normal({2, 3, 7}, 1).mul(3).to(at::kLong);
  const auto order = Order::by(keys);
  const auto x = random_normal({2, 3, 7, 4}, 2).requires_grad_(),
             w = random_normal({2, 3, 7, 4}, 3);
  EXPECT_TRUE(at::equal(order.in_time(order.sorted(x)), x));
  const auto index = order.order.unsqueeze(-1).expand({-1, -1, -1, 4});
  EXPECT_TRUE(at::equal(order.sorted(x), x.gather(2, index)));
  const auto slope = [&](const Tensor& y) {
    return torch::autograd::grad({(y * w).sum()}, {x})[0];
  };
  EXPECT_TRUE(at::equal(slope(order.sorted(x)), slope(x.gather(2, index))));
  const auto back = order.inverse.unsqueeze(-1).expand({-1, -1, -1, 4});
  EXPECT_TRUE(at::equal(slope(order.in_time(x)), slope(x.gather(2, back))));
}

TEST(Order, ExpandsSizesOfOne) {
  const auto order = Order::by(random_normal({1, 3, 5}, 1).mul(100).to(at::kLong));
  const auto x = random_normal({2, 1, 5, 2}, 2).requires_grad_();
  const auto y = order.sorted(x);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 3, 5, 2}));
  EXPECT_NEAR_TENSOR(torch::autograd::grad({y.sum()}, {x})[0], at::full_like(x, 3), kExact);
  const auto flags = at::arange(5).view({1, 1, 5});
  EXPECT_TRUE(at::equal(order.sorted(flags), order.order));
}

}  // namespace
}  // namespace longbow

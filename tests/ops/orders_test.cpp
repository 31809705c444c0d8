#include "longbow/ops/orders.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Orders some_orders(int64_t batch, int64_t heads, int64_t orders, int64_t tokens) {
  const auto order = random_normal({batch, heads, orders, tokens}, 9).argsort(-1, false);
  return {order, order.argsort(-1, false)};
}

TEST(InOrders, TakesTokensInEachOrder) {
  const auto x = random_normal({2, 3, 7, 4}, 1).requires_grad_();
  const auto orders = some_orders(2, 3, 2, 7);
  const auto y = in_orders(x, orders, 9);
  ASSERT_EQ(y.sizes(), at::IntArrayRef({2, 3, 2, 9, 4}));
  const auto weights = random_normal(y.sizes(), 2);
  auto want = at::zeros_like(y), slope = at::zeros_like(x);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t p = 0; p < 7; ++p) {
          const auto t = orders.order[b][h][r][p].item<int64_t>();
          want[b][h][r][p] = x.detach()[b][h][t];
          slope[b][h][t] += weights[b][h][r][p];
        }
  EXPECT_TRUE(at::equal(y, want));
  EXPECT_NEAR_TENSOR(torch::autograd::grad({y}, {x}, {weights})[0], slope, tolerance(at::kDouble));
}

// Of which some saw nothing, and one token in no order anything.
TEST(JoinOrders, IsTheJoinOfAllOrdersOfAToken) {
  const auto orders = some_orders(2, 3, 3, 7);
  const auto out = random_normal({2, 3, 3, 8, 4}, 1).requires_grad_();
  auto logs = random_normal({2, 3, 3, 8, 1}, 2) * 5;
  logs.masked_fill_(random_normal(logs.sizes(), 3) > 1, -INFINITY);
  for (int64_t r = 0; r < 3; ++r)
    logs[0][0][r][orders.inverse[0][0][r][4].item<int64_t>()] = -INFINITY;
  logs.requires_grad_();
  const auto in_time = [&](const Tensor& x, int64_t r) {
    const auto index = orders.inverse.select(2, r).unsqueeze(-1);
    return x.select(2, r).gather(2, index.expand({-1, -1, -1, x.size(4)}));
  };
  SoftmaxPart want = {in_time(out, 0), in_time(logs, 0)};
  for (int64_t r = 1; r < 3; ++r) want = join_softmax(want, {in_time(out, r), in_time(logs, r)});
  const auto got = join_orders({out, logs}, orders);
  EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble));
  const auto none = want.log_sum.isneginf();
  EXPECT_EQ(none[0][0][4].item<bool>(), true);
  EXPECT_TRUE(at::equal(got.log_sum.isneginf(), none));
  EXPECT_NEAR_TENSOR(got.log_sum.masked_fill(none, 0), want.log_sum.masked_fill(none, 0),
                     tolerance(at::kDouble));
  const auto slopes = [&](const SoftmaxPart& x) {
    return torch::autograd::grad(
        {x.out, x.log_sum}, {out, logs},
        {random_normal(x.out.sizes(), 5), random_normal(x.log_sum.sizes(), 6)});
  };
  const auto got_slopes = slopes(got), want_slopes = slopes(want);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR_TENSOR(got_slopes[i], want_slopes[i], tolerance(at::kDouble)) << i;
}

TEST(Orders, AreRegistered) {
  for (const auto* name :
       {"in_orders", "in_orders_backward", "join_orders", "join_orders_backward"})
    EXPECT_EQ(missing_kernels(name), "") << name;
}

TEST(Orders, NameWhatDoesNotFit) {
  const auto orders = some_orders(1, 1, 2, 5);
  EXPECT_NE(error_of([&] {
              in_orders(at::zeros({1, 1, 4, 2}), orders, 5);
            }).find("in_orders: x is [1, 1, 4, 2] in 5 places, but orders are [1, 1, 2, 5]"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] {
        join_orders({at::zeros({1, 1, 2, 4, 3}), at::zeros({1, 1, 2, 4, 1})}, orders);
      })
          .find("join_orders: parts of [1, 1, 2, 4, 3] and [1, 1, 2, 4, 1], but orders are [1, "
                "1, 2, 5]"),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              in_orders(at::zeros({1, 1, 5, 2}), {orders.order, orders.order.narrow(2, 0, 1)}, 5);
            }).find("in_orders: orders are [1, 1, 2, 5], inverse [1, 1, 1, 5]"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

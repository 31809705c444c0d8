#include "longbow/ops/order_softmax.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "tests/ops/order_softmaxes.h"
#include "tests/ops/registered.h"

namespace longbow {
namespace {

const std::vector<OrderProblem> kProblems = {{},
                                             {.causal = true},
                                             {.padded = true},
                                             {.causal = true, .padded = true, .itself = false},
                                             {.tokens = 7, .places = 7, .grouped = true}};

// Pair by pair: how often the orders show it.
SoftmaxPart by_pairs(const OrderProblem& p, const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto orders = p.standing();
  const auto rule = p.rule();
  auto count = at::zeros({p.batch, p.heads, p.tokens, p.tokens}, at::kDouble);
  const auto order = orders.order.accessor<int64_t, 4>();
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t r = 0; r < p.orders; ++r)
        for (int64_t to = 0; to < p.places; ++to)
          for (int64_t from = 0; from < p.places; ++from) {
            const int64_t i = order[b][h][r][to], j = order[b][h][r][from],
                          back = to / p.block - from / p.block;
            if (i < 0 || j < 0 || back < 0 || back > 1 || i == j || (p.causal && j > i)) continue;
            if (p.padded && !rule.visibility.keep[b][0][j].item<bool>()) continue;
            const auto& groups = rule.visibility.query_groups;
            if (p.grouped && groups[b][h * p.orders + r][to].item<int64_t>() !=
                                 groups[b][h * p.orders + r][from].item<int64_t>())
              continue;
            count[b][h][i][j] += 1;
          }
  const auto scores = q.matmul(k.transpose(-2, -1)) * rule.scale + count.log();
  const auto sum = scores.logsumexp(-1, true);
  const auto out =
      (scores - sum.masked_fill(sum.isneginf(), 0)).exp().masked_fill(count == 0, 0).matmul(v);
  return {p.itself ? at::where(sum.isneginf(), v, out) : out, sum};
}

TEST(OrderSoftmax, AMaskThatChangedBeforeTheBackwardPassIsAnError) {
  const OrderProblem p = {.padded = true};
  const auto q = p.q().requires_grad_();
  const auto rule = p.rule();
  const auto out = order_softmax(q, p.k(), p.v(), p.standing(), rule, p.itself).out;
  rule.visibility.keep.logical_not_();
  EXPECT_NE(error_of([&] { out.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

TEST(OrderSoftmax, CountsAPairAsOftenAsTheOrdersShowIt) {
  for (const auto& p : kProblems) {
    SCOPED_TRACE(c10::str(&p - kProblems.data()));
    const auto got = order_softmax(p.q(), p.k(), p.v(), p.standing(), p.rule(), p.itself),
               want = by_pairs(p, p.q(), p.k(), p.v());
    EXPECT_NEAR_TENSOR(got.out, want.out, tolerance(at::kDouble));
    const auto none = want.log_sum.isneginf();
    EXPECT_TRUE(at::equal(got.log_sum.isneginf(), none));
    EXPECT_NEAR_TENSOR(got.log_sum.masked_fill(none, 0), want.log_sum.masked_fill(none, 0),
                       tolerance(at::kDouble));
  }
}

TEST(OrderSoftmax, HasTheGradientsOfThePairs) {
  for (const auto& p : kProblems) {
    SCOPED_TRACE(c10::str(&p - kProblems.data()));
    const auto slopes = [&](const auto& read) {
      const auto q = p.q().requires_grad_(), k = p.k().requires_grad_(), v = p.v().requires_grad_();
      const SoftmaxPart y = read(q, k, v);
      // Where nothing is seen there is no slope, of -infinity by the pairs there is none either.
      const auto none = y.log_sum.isneginf();
      return torch::autograd::grad(
          {y.out, y.log_sum.masked_fill(none, 0)}, {q, k, v},
          {random_normal(y.out.sizes(), 5), random_normal(y.log_sum.sizes(), 6)});
    };
    const auto got = slopes([&](const Tensor&q, const Tensor&k, const Tensor&v) {
      return order_softmax(q, k, v, p.standing(), p.rule(), p.itself);
    }),
               want = slopes([&](const Tensor&q, const Tensor&k, const Tensor&v) {
                 return by_pairs(p, q, k, v);
               });
    for (size_t i = 0; i < 3; ++i) {
      const auto known = want[i].isnan().logical_not();  // rows of -infinity
      EXPECT_TRUE(got[i].isfinite().all().item<bool>());
      EXPECT_NEAR_TENSOR(got[i].masked_fill(known.logical_not(), 0), want[i].nan_to_num(0),
                         tolerance(at::kDouble))
          << i;
    }
  }
}

TEST(OrderSoftmax, IsRegistered) {
  for (const auto* name : {"order_softmax", "order_softmax_backward"})
    EXPECT_EQ(missing_kernels(name), "") << name;
}

TEST(OrderSoftmax, NamesWhatDoesNotFit) {
  const OrderProblem p;
  const auto message = [&](const Tensor& q, const Orders& orders, const BlockRule& rule) {
    return error_of([&] { order_softmax(q, p.k(), p.v(), orders, rule, true); });
  };
  const auto has = [](const std::string& whole, const std::string& part) {
    EXPECT_NE(whole.find(part), std::string::npos) << whole;
  };
  const auto orders = p.standing();
  has(message(p.q().narrow(2, 0, 3), orders, p.rule()),
      "order_softmax: q is [2, 3, 3, 8], k [2, 3, 20, 8], v [2, 3, 20, 8], inverse orders [2, 3, "
      "2, 20]");
  has(message(p.q(), {orders.order, orders.inverse.narrow(2, 0, 1)}, p.rule()),
      "order_softmax: orders are [2, 3, 2, 24], inverse [2, 3, 1, 20]");
  auto rule = p.rule();
  rule.pairs.query_block = 5;
  has(message(p.q(), orders, rule),
      "order_softmax: columns are [1, 1, 6, 2] for 24 places in blocks of 5");
  rule = p.rule();
  rule.visibility.query_positions = orders.order.flatten(1, 2);
  has(message(p.q(), orders, rule),
      "order_softmax: positions are those of the orders, and nothing is added or dropped");
  rule = p.rule();
  rule.visibility.memory.tokens = 4;
  has(message(p.q(), orders, rule),
      "order_softmax: positions are those of the orders, and nothing is added or dropped");
  rule = p.rule();
  rule.scale = 0;
  has(message(p.q(), orders, rule), "order_softmax: scale is 0, not above 0");
  rule = p.rule();
  rule.visibility.keep = at::ones({1, 1, 24}, at::kBool);
  has(message(p.q(), orders, rule), "order_softmax: keep is [1, 1, 24] for 20 tokens");
  rule = p.rule();
  rule.visibility.query_groups = rule.visibility.key_groups = at::zeros({2, 6, 20}, at::kLong);
  has(message(p.q(), orders, rule),
      "order_softmax: groups are [2, 6, 20] and [2, 6, 20] for 24 places");
}

}  // namespace
}  // namespace longbow

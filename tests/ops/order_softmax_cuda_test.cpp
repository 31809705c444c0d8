#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/order_softmaxes.h"

namespace longbow {
namespace {

// Results and gradients for numbers that were rounded to a type.
std::vector<Tensor> results(const OrderProblem& p, at::ScalarType rounded, at::ScalarType computed,
                            at::Device device) {
  const auto rounds = [&](const Tensor& x) { return x.to(rounded).to(device, computed); };
  const auto q = rounds(p.q()).requires_grad_(), k = rounds(p.k()).requires_grad_(),
             v = rounds(p.v()).requires_grad_();
  auto rule = p.rule();
  auto& seen = rule.visibility;
  rule.pairs.columns = rule.pairs.columns.to(device);
  for (auto* x : {&seen.keep, &seen.query_groups, &seen.key_groups})
    if (x->defined()) *x = x->to(device);
  const auto orders = p.standing();
  EXPECT_EQ(has_order_kernel(q, k, v), computed != at::kDouble);
  const auto y =
      order_softmax(q, k, v, {orders.order.to(device), orders.inverse.to(device)}, rule, p.itself);
  const auto d =
      torch::autograd::grad({y.out, y.log_sum}, {q, k, v},
                            {rounds(random_normal(y.out.sizes(), 5)),
                             random_normal(y.log_sum.sizes(), 6).to(y.log_sum.options())});
  std::vector<Tensor> found = {y.out.detach(), y.log_sum.detach(), d[0], d[1], d[2]};
  for (auto& x : found) x = x.cpu().to(at::kDouble);
  return found;
}

// |got - want| of a token beside |want|, where shorter ones count as the mean.
double error_by_token(const Tensor& got, const Tensor& want) {
  const auto length = want.norm(2, -1);
  return ((got - want).norm(2, -1) / length.clamp_min(length.mean().item<double>()))
      .nan_to_num(0)
      .max()
      .item<double>();
}

TEST(OrderSoftmaxCuda, IsTheFormulaForAllSizesAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 6e-2}, {at::kHalf, 8e-3}})
    for (const auto& p :
         std::vector<OrderProblem>{{},
                                   {.orders = 1, .tokens = 1, .places = 1, .itself = true},
                                   {.batch = 1, .orders = 1, .turned = true},
                                   {.orders = 4,
                                   .tokens = 150,
                                   .places = 192,
                                   .block = 64,
                                   .width = 64,
                                   .value_width = 64},
                                   {.tokens = 130,
                                   .places = 132,
                                   .block = 12,
                                   .width = 24,
                                   .value_width = 40,
                                   .causal = true},
                                   {.orders = 3,
                                   .tokens = 96,
                                   .places = 96,
                                   .block = 16,
                                   .width = 32,
                                   .value_width = 32,
                                   .padded = true,
                                   .grouped = true,
                                   .itself = false},
                                   {.tokens = 300,
                                   .places = 320,
                                   .block = 160,
                                   .width = 128,
                                   .value_width = 72,
                                   .causal = true,
                                   .padded = true}}) {
      SCOPED_TRACE(c10::str(p.tokens, " x ", p.width, " ", type));
      const auto got = results(p, type, type, at::Device("cuda:0")),
                 want = results(p, type, at::kDouble, at::kCPU);
      for (size_t i = 0; i < got.size(); ++i) {
        const auto none = want[i].isneginf();
        EXPECT_TRUE(at::equal(got[i].isneginf(), none)) << i;
        EXPECT_FALSE(got[i].isnan().any().item<bool>()) << i;
        // Logarithms of the sums are those of scores that are not rounded.
        EXPECT_LE(error_by_token(got[i].masked_fill(none, 0), want[i].masked_fill(none, 0)),
                  i == 1 ? 1e-4 : error)
            << i;
      }
    }
}

}  // namespace
}  // namespace longbow

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/orders.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

struct Sizes {
  int64_t orders, tokens, places, width;
};

// Results and gradients for numbers that were rounded to a type.
std::vector<Tensor> results(const Sizes& size, at::ScalarType rounded, at::ScalarType computed,
                            at::Device device) {
  const auto rounds = [&](const Tensor& x) { return x.to(rounded).to(device, computed); };
  const auto order = random_normal({2, 3, size.orders, size.tokens}, 9).argsort(-1, false);
  const Orders orders = {order.to(device), order.argsort(-1, false).to(device)};
  const auto x = rounds(random_normal({2, 3, size.tokens, size.width}, 1)).requires_grad_();
  const auto sorted = in_orders(x, orders, size.places);
  const auto part = rounds(random_normal(sorted.sizes(), 2)).requires_grad_();
  auto logs = random_normal(sorted.narrow(4, 0, 1).sizes(), 3);
  logs = logs.masked_fill(logs > 0.5, -INFINITY)  // some saw nothing
             .to(device, computed == at::kDouble ? at::kDouble : at::kFloat)
             .requires_grad_();
  const auto joined = join_orders({part, logs}, orders);
  const auto d = torch::autograd::grad(
      {sorted, joined.out, joined.log_sum}, {x, part, logs},
      {rounds(random_normal(sorted.sizes(), 4)), rounds(random_normal(joined.out.sizes(), 5)),
       random_normal(joined.log_sum.sizes(), 6).to(logs.options())});
  std::vector<Tensor> found = {
      sorted.detach(), joined.out.detach(), joined.log_sum.detach(), d[0], d[1], d[2]};
  for (auto& y : found) y = y.cpu().to(at::kDouble);
  return found;
}

TEST(OrdersCuda, AreTheFormulaForAllSizesAndTypes) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 1.6e-2}, {at::kHalf, 2e-3}})
    for (const auto& size : {Sizes{1, 1, 1, 8},
                             {4, 64, 64, 64},
                             {3, 33, 48, 24},
                             {2, 100, 128, 256},
                             {4, 30, 32, 128},
                             {2, 9, 12, 12}}) {
      SCOPED_TRACE(c10::str(size.tokens, " x ", size.width, " ", type));
      const auto got = results(size, type, type, at::Device("cuda:0")),
                 want = results(size, type, at::kDouble, at::kCPU);
      for (size_t i = 0; i < got.size(); ++i) {
        const auto none = want[i].isneginf();
        EXPECT_TRUE(at::equal(got[i].isneginf(), none)) << i;
        EXPECT_NEAR_TENSOR(got[i].masked_fill(none, 0), want[i].masked_fill(none, 0),
                           (Tolerance{error, error}))
            << i;
      }
    }
}

TEST(OrdersCuda, MayHaveNoTokens) {
  const at::Device device("cuda:0");
  const auto none = at::empty({1, 2, 3, 0}, at::kLong).to(device);
  const auto x = at::empty({1, 2, 0, 8}, at::kHalf).to(device).requires_grad_();
  const auto y = in_orders(x, {none, none}, 4);
  EXPECT_TRUE(y.equal(at::zeros({1, 2, 3, 4, 8}, x.options())));
  const auto logs = at::zeros({1, 2, 3, 4, 1}, x.options().dtype(at::kFloat)).requires_grad_();
  const auto part = y.detach().requires_grad_();
  const auto joined = join_orders({part, logs}, {none, none});
  EXPECT_EQ(joined.out.sizes(), x.sizes());
  const auto d = torch::autograd::grad({y, joined.out}, {x, part, logs},
                                       {at::ones_like(y), at::ones_like(joined.out)});
  EXPECT_EQ(d[0].sizes(), x.sizes());
  for (const auto& slope : {d[1], d[2]}) EXPECT_TRUE(slope.equal(at::zeros_like(slope)));
}

// A gradient, or a part, that does not begin at a multiple of 16 bytes.
TEST(OrdersCuda, ReadsOddAddresses) {
  const at::Device device("cuda:0");
  const auto order = random_normal({1, 2, 3, 6}, 9).argsort(-1, false).to(device);
  const Orders orders = {order, order.argsort(-1, false)};
  const auto found = [&](bool odd) {
    const auto drawn = [&](uint64_t seed) {  // [1, 2, 3, 6, 8]
      const auto all = at::constant_pad_nd(random_normal({288}, seed), {1, 0});
      const auto x = all.to(device, at::kBFloat16).narrow(0, 1, 288).view({1, 2, 3, 6, 8});
      return odd ? x : x.clone();
    };
    const auto x = random_normal({1, 2, 6, 8}, 1).to(device, at::kBFloat16).requires_grad_();
    const auto y = in_orders(x, orders, 6);
    const auto part = drawn(2).requires_grad_();
    const auto logs = random_normal({1, 2, 3, 6, 1}, 3).to(device, at::kFloat);
    const auto joined = join_orders({part, logs}, orders).out;
    auto all = torch::autograd::grad({y, joined}, {x, part}, {drawn(4), x.detach()});
    all.push_back(joined.detach());
    return all;
  };
  const auto got = found(true), want = found(false);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

}  // namespace
}  // namespace longbow

#include "longbow/nn/softmax/channel_softmax.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every pair and channel on its own: softmax over the keys of k + w.
Tensor dense_mean(const Tensor& k, const Tensor& v, const Tensor& w, const Tensor& hidden = {}) {
  auto scores = k.unsqueeze(-3) + w.unsqueeze(-1);  // [..., T, S, D]
  if (hidden.defined()) scores = scores.masked_fill(hidden.unsqueeze(-1), -kInfinity);
  return (at::_safe_softmax(scores, -2) * v.unsqueeze(-3)).sum(-2);
}

Tensor key(int64_t tokens, int64_t channels, uint64_t seed) {
  auto k = random_normal({2, 2, tokens, channels}, seed);
  k.select(2, tokens / 2).fill_(-kInfinity);
  return k;
}

TEST(ChannelSoftmax, AMeanIsThatOfTheSoftmax) {
  const auto k = key(9, 3, 1), v = random_normal({2, 2, 9, 3}, 2);
  const auto want = dense_mean(k, v, at::zeros({1, 9}, at::kDouble));
  EXPECT_NEAR_TENSOR(all_keys(k, v).mean(), want, tolerance(at::kDouble));
  const auto halves = joined(all_keys(k.narrow(2, 0, 4), v.narrow(2, 0, 4)),
                             all_keys(k.narrow(2, 4, 5), v.narrow(2, 4, 5)));
  EXPECT_NEAR_TENSOR(halves.mean(), want, tolerance(at::kDouble));
}

TEST(ChannelSoftmax, RunningSumsAreThoseOfEveryPrefix) {
  for (const int64_t n : {1, 2, 3, 8, 13}) {
    const auto k = key(n, 1, 3), v = random_normal({2, 2, n, 3}, 4);
    const auto mean = running(each_key(k, v)).mean();
    for (int64_t t = 1; t <= n; ++t)
      EXPECT_NEAR_TENSOR(mean.narrow(2, t - 1, 1),
                         all_keys(k.narrow(2, 0, t), v.narrow(2, 0, t)).mean(),
                         tolerance(at::kDouble));
  }
}

TEST(ChannelSoftmax, NoKeyGivesZero) {
  const auto k = at::full({1, 1, 4, 2}, -kInfinity, at::kDouble);
  const auto v = random_normal({1, 1, 4, 2}, 5), none = at::zeros({1, 1, 1, 2}, at::kDouble);
  EXPECT_NEAR_TENSOR(all_keys(k, v).mean(), none, kExact);
  EXPECT_NEAR_TENSOR(biased_sums(k, v, {random_normal({1, 4}, 6)}).mean(), none, kExact);
  EXPECT_NEAR_TENSOR(joined(all_keys(k, v), all_keys(k, v)).mean(), none, kExact);
}

TEST(ChannelSoftmax, BiasedSumsAreThoseOfEveryPair) {
  const auto hidden = random_normal({7, 9}, 7) > 0.5;
  for (const int64_t channels : {1, 3}) {
    const auto k = key(9, channels, 8), v = random_normal({2, 2, 9, 3}, 9);
    const auto w = random_normal({2, 7, 9}, 10);
    EXPECT_NEAR_TENSOR(biased_sums(k, v, {w}).mean(), dense_mean(k, v, w), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(biased_sums(k, v, {w}, hidden).mean(), dense_mean(k, v, w, hidden),
                       tolerance(at::kDouble));
  }
}

TEST(ChannelSoftmax, AFactoredBiasIsTheProductOfItsFactors) {
  const auto k = key(9, 3, 11), v = random_normal({2, 2, 9, 3}, 12);
  const auto left = random_normal({7, 2}, 13), right = random_normal({9, 2}, 14);
  EXPECT_NEAR_TENSOR(biased_sums(k, v, {left, right}).mean(),
                     dense_mean(k, v, left.matmul(right.t())), tolerance(at::kDouble));
}

// A key and a bias for one of the channels so large that the products of all other pairs underflow,
// although no score of that channel is.
struct PulledApart {
  Tensor k = random_normal({1, 1, 5, 2}, 15), v = random_normal({1, 1, 5, 2}, 16),
         w = random_normal({3, 5}, 17);
  PulledApart() {
    k[0][0][0][0] = 2000;
    w.select(1, 0).fill_(-3000);
    k[0][0][4][0] = -3000;
    w.select(1, 4).fill_(2000);
  }
};

TEST(ChannelSoftmax, KeysAndBiasesThatPullApartAreWeighedTogether) {
  const PulledApart given;
  EXPECT_NEAR_TENSOR(biased_sums(given.k, given.v, {given.w}).mean(),
                     dense_mean(given.k, given.v, given.w), tolerance(at::kDouble));
}

TEST(ChannelSoftmax, GradientsAreThoseOfDifferences) {
  const auto hidden = random_normal({3, 5}, 18) > 0.5;
  const PulledApart given;
  const auto narrow = random_normal({2, 1, 5, 1}, 19).requires_grad_(),
             wide = random_normal({2, 1, 5, 2}, 20).requires_grad_(),
             v = random_normal({2, 1, 5, 2}, 21).requires_grad_(),
             w = random_normal({3, 5}, 22).requires_grad_(),
             left = random_normal({3, 2}, 23).requires_grad_(),
             right = random_normal({5, 2}, 24).requires_grad_(),
             apart_k = given.k.clone().requires_grad_(), apart_w = given.w.clone().requires_grad_();
  for (const auto& k : {narrow, wide})
    for (const auto& mask : {Tensor(), hidden}) {
      const auto slope = gradcheck([&] { return biased_sums(k, v, {w}, mask).mean(); },
                                   {{"k", k}, {"v", v}, {"w", w}});
      EXPECT_TRUE(slope) << slope.message();
    }
  const auto factored = gradcheck(
      [&] {
        return biased_sums(wide, v, {left, right}).mean();
      },
      {{"left", left}, {"right", right}});
  EXPECT_TRUE(factored) << factored.message();
  const auto apart = gradcheck([&] { return biased_sums(apart_k, given.v, {apart_w}).mean(); },
                               {{"k", apart_k}, {"w", apart_w}}, 1e-5);
  EXPECT_TRUE(apart) << apart.message();
}

TEST(ChannelSoftmax, HasNoSecondDerivative) {
  const auto k = random_normal({1, 1, 5, 2}, 25).requires_grad_();
  EXPECT_EQ(error_of([&] {
              (void)torch::autograd::grad(
                  {biased_sums(k, k, {random_normal({3, 5}, 26)}).values.sum()}, {k}, {},
                  std::nullopt, /*create_graph=*/true);
            }),
            "biased_sums: has no second derivative");
}

}  // namespace
}  // namespace longbow

#include "longbow/nn/features/positive_features.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "longbow/ops/decayed_product_formula.h"
#include "tests/support/oracle.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

constexpr int64_t kFeatures = 5, kWidth = 3;

Tensor logs(int64_t tokens, uint64_t seed) {
  return 2 * random_normal({2, 2, tokens, kFeatures}, seed);
}

PositiveFeatures of(const Tensor& logs, const Tensor& keep = {}) {
  return features_of_logs(logs, keep);
}

// exp(query_peak + key_peak) [values, weights]: what the sums stand for.
FeatureSums whole(const PositiveSums& s) {
  const auto unit = (s.query_peak + s.key_peak).exp();
  return {s.sums.values * unit, s.sums.weights * unit};
}

TEST(PositiveFeatures, SumsAreThoseOfTheDenseWeights) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{9, 9}, {150, 150}, {4, 70}, {70, 4}})
    for (const bool causal : {false, true}) {
      const auto q = logs(queries, 1), k = logs(keys, 2);
      const auto v = random_normal({2, 2, keys, kWidth}, 3);
      const Context context = {.mask = {.causal = causal}};
      const auto weights =
          q.exp().matmul(k.exp().transpose(-2, -1)) * oracle::visible(context, 2, queries, keys);
      const auto got = positive_sums(of(q), of(k), v, causal);
      EXPECT_NEAR_TENSOR(whole(got).values, weights.matmul(v), tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(whole(got).weights, weights.sum(-1, true), tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(got.q * got.query_peak.exp(), q.exp(), tolerance(at::kDouble));
    }
}

TEST(PositiveFeatures, ExtensionsContinueTheSums) {
  const auto q = logs(11, 4), k = logs(11, 5);
  const auto v = random_normal({2, 2, 11, kWidth}, 6);
  const auto want = whole(positive_sums(of(q), of(k), v, true));
  State state;
  open_positive_sums(state, {.v = v}, kFeatures);
  for (const auto& cut : {std::pair<int64_t, int64_t>{0, 7}, {7, 1}, {8, 3}}) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, cut.first, cut.second); };
    const auto sums = whole(grow_positive_sums(of(part(q)), of(part(k)), part(v), state));
    EXPECT_NEAR_TENSOR(sums.values, part(want.values), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums.weights, part(want.weights), tolerance(at::kDouble));
  }
}

TEST(PositiveFeatures, ExtensionsReadTheSumsOfAMemory) {
  const auto q = logs(11, 25), k = logs(9, 26);
  const auto v = random_normal({2, 2, 9, kWidth}, 27);
  const auto want = whole(positive_sums(of(q), of(k), v, false));
  State state;
  keep_positive_memory(state, of(k), v);
  for (const auto& cut : {std::pair<int64_t, int64_t>{0, 7}, {7, 1}, {8, 3}}) {
    const auto part = [&](const Tensor& x) { return x.narrow(2, cut.first, cut.second); };
    const auto sums = whole(read_positive_memory(of(part(q)), state));
    EXPECT_NEAR_TENSOR(sums.values, part(want.values), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(sums.weights, part(want.weights), tolerance(at::kDouble));
  }
}

// Exponents in the hundreds overflow as numbers, not as peaks, also in float32.
TEST(PositiveFeatures, NothingOverflows) {
  auto k = logs(100, 7);
  k.narrow(2, 50, 10).add_(500);
  const auto q = (logs(100, 8) - 400).to(at::kFloat).requires_grad_();
  const auto keys = k.to(at::kFloat).requires_grad_();
  const auto v = random_normal({2, 2, 100, kWidth}, 9).to(at::kFloat);
  for (const bool causal : {false, true}) {
    const auto s = positive_sums(of(q), of(keys), v, causal);
    EXPECT_TRUE(s.sums.values.isfinite().all().item<bool>());
    (s.sums.values.sum() + s.sums.weights.sum()).backward();
    EXPECT_TRUE(q.grad().isfinite().all().item<bool>());
    EXPECT_TRUE(keys.grad().isfinite().all().item<bool>());
    EXPECT_NEAR_TENSOR(s.key_peak.narrow(2, 0, 1),
                       keys.detach().narrow(2, 0, causal ? 1 : 100).amax({2, 3}, true), kExact);
  }
}

TEST(PositiveFeatures, APaddedKeyIsNotThere) {
  const auto q = logs(6, 10), k = logs(6, 11), v = random_normal({2, 2, 6, kWidth}, 12);
  const auto keep = Mask::from_lengths(at::tensor({6, 4}, at::kLong), 6).keep;
  auto loud = k.clone();
  loud[1].narrow(1, 4, 2).fill_(900);
  const auto got = positive_sums(of(q), of(loud, keep), v, false);
  const auto alone = positive_sums(of(q), of(k.narrow(2, 0, 4)), v.narrow(2, 0, 4), false);
  EXPECT_NEAR_TENSOR(got.sums.values[1], alone.sums.values[1], tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(got.sums.weights[1], alone.sums.weights[1], tolerance(at::kDouble));
  const auto none = positive_sums(of(q), of(k, at::zeros({2, 6}, at::kBool)), v, false);
  EXPECT_NEAR_TENSOR(none.sums.weights, at::zeros({2, 2, 6, 1}), kExact);
}

TEST(PositiveFeatures, LogarithmsAreThoseOfTheFormula) {
  const auto x = random_normal({1, 2, 4, 16}, 13), omega = random_normal({1, 5, 16}, 14);
  const auto u = (x / 2).matmul(omega[0].t());  // 16^(1/4) = 2
  const auto half = (x / 2).square().sum(-1, true) / 2;
  EXPECT_NEAR_TENSOR(log_features(x, omega, false).exp(), (u - half).exp() / std::sqrt(5.0),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(log_features(x, omega, true).exp(),
                     at::cat({(u - half).exp(), (-u - half).exp()}, -1) / std::sqrt(10.0),
                     tolerance(at::kDouble));
}

TEST(PositiveFeatures, AreThoseOfTheLogarithms) {
  const auto keep = Mask::from_lengths(at::tensor({70, 3}, at::kLong), 70).keep;
  for (const bool mirrored : {false, true})
    for (const auto& kept : {Tensor(), keep}) {
      const auto x = random_normal({2, 2, 70, 7}, 18).requires_grad_(),
                 omega = random_normal({2, 5, 7}, 19);
      const auto got = positive_features(x, omega, mirrored, kept),
                 want = of(log_features(x, omega, mirrored), kept);
      EXPECT_NEAR_TENSOR(got.phi, want.phi, tolerance(at::kDouble));
      EXPECT_NEAR_TENSOR(got.peak, want.peak, tolerance(at::kDouble));
      EXPECT_FALSE(got.peak.requires_grad());
      const auto direction = random_normal(got.phi.sizes(), 20);
      EXPECT_NEAR_TENSOR(torch::autograd::grad({got.phi}, {x}, {direction})[0],
                         torch::autograd::grad({want.phi}, {x}, {direction})[0],
                         tolerance(at::kDouble));
    }
}

// Devices without kernels for it add up by the formula of decayed_product, from a peak of nothing.
TEST(PositiveFeatures, SumsFadeFromNothingWithoutLoss) {
  const auto x = random_normal({1, 1, 200, 6}, 21).abs(),
             y = random_normal({1, 1, 200, 6}, 22).abs(),
             z = random_normal({1, 1, 200, 4}, 23).abs();
  const auto c = std::get<0>((30 * random_normal({1, 1, 200, 1}, 24)).cummax(2));
  const auto fading =
      at::cat({at::full({1, 1, 1, 1}, kNothingSeen, c.options()), c.narrow(2, 0, 199)}, 2) - c;
  const auto narrow = [](const Tensor& t) { return t.to(at::kFloat); };
  Tensor none, also_none;
  const auto want = decayed_product_formula(x, y, z, fading, {}, none);
  const auto got =
      decayed_product_formula(narrow(x), narrow(y), narrow(z), narrow(fading), {}, also_none);
  EXPECT_LT(((got - want) / want).abs().max().item<double>(), 1e-5);
}

TEST(PositiveFeatures, TheirProductsAreExponentialsOnAverage) {
  const auto q = 0.5 * random_normal({1, 1, 6, 8}, 15), k = 0.5 * random_normal({1, 1, 6, 8}, 16);
  const auto omega = random_normal({1, 200000, 8}, 17);
  const auto want = (q.matmul(k.transpose(-2, -1)) / std::sqrt(8.0)).exp();
  for (const bool mirrored : {false, true}) {
    const auto phi = [&](const Tensor& x) { return log_features(x, omega, mirrored).exp(); };
    EXPECT_NEAR_TENSOR(phi(q).matmul(phi(k).transpose(-2, -1)), want, (Tolerance{0.01, 0.01}));
  }
}

TEST(PositiveFeatures, TheUsualNumber) {
  EXPECT_EQ(usual_features(64, false), 266);
  EXPECT_EQ(usual_features(8, false), 16);
  EXPECT_EQ(usual_features(10, true), 22);  // 10 ln 10 = 23.03
  EXPECT_EQ(usual_features(1, false), 1);
  EXPECT_EQ(usual_features(1, true), 2);
}

}  // namespace
}  // namespace longbow

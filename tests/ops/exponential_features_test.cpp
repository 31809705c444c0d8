#include "longbow/ops/exponential_features.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

Tensor exponents(const Tensor& x, const Tensor& omega, double scale) {
  const auto y = x * scale;
  return y.matmul(omega.transpose(-2, -1)) - y.square().sum(-1, true) / 2;
}

TEST(ExponentialFeatures, AreRelativeToTheLargest) {
  const auto x = random_normal({2, 70, 3, 5}, 1).transpose(1, 2);
  for (const int64_t heads : {1, 3}) {
    const auto omega = random_normal({heads, 19, 5}, 2), u = exponents(x, omega, 0.6);
    const auto token = exponential_features(x, omega, 0.6, {}, Peak::token);
    EXPECT_NEAR_TENSOR(token.peak, u.amax(-1, true), tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(token.phi, (u - u.amax(-1, true)).exp(), tolerance(at::kDouble));
    const auto head = exponential_features(x, omega, 0.6, {}, Peak::head);
    const auto most = u.amax(at::IntArrayRef({2, 3}), true);
    EXPECT_NEAR_TENSOR(head.peak, most, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(head.phi, (u - most).exp(), tolerance(at::kDouble));
  }
}

TEST(ExponentialFeatures, MirroredAreThoseOfBothSigns) {
  const auto x = random_normal({2, 3, 70, 5}, 1).requires_grad_(),
             omega = random_normal({3, 19, 5}, 2), both = at::cat({omega, -omega}, 1),
             direction = random_normal({2, 3, 70, 38}, 3);
  for (const auto peak : {Peak::token, Peak::head}) {
    const auto got = exponential_features(x, omega, 0.6, {}, peak, true),
               want = exponential_features(x, both, 0.6, {}, peak);
    EXPECT_NEAR_TENSOR(got.phi, want.phi, tolerance(at::kDouble));
    EXPECT_NEAR_TENSOR(got.peak, want.peak, tolerance(at::kDouble));
    const auto gradient = [&](const Tensor& phi) {
      x.mutable_grad() = Tensor();
      (phi * direction).sum().backward();
      return x.grad().clone();
    };
    EXPECT_NEAR_TENSOR(gradient(got.phi), gradient(want.phi), tolerance(at::kDouble));
  }
}

TEST(ExponentialFeatures, OfHiddenTokensAreZeroAndDoNotCount) {
  const auto x = random_normal({2, 1, 9, 4}, 1), omega = random_normal({1, 6, 4}, 2);
  const auto keep = at::ones({2, 9}, at::kBool);
  keep[0].narrow(0, 4, 5).fill_(false);
  keep[1].fill_(false);
  const auto found = exponential_features(x, omega, 1, keep, Peak::head);
  const auto seen = exponents(x, omega, 1)[0].narrow(1, 0, 4);
  EXPECT_NEAR_TENSOR(found.peak[0].flatten(), seen.amax().view({1}), tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(found.phi[0].narrow(1, 0, 4), (seen - seen.amax()).exp(),
                     tolerance(at::kDouble));
  EXPECT_EQ(found.phi[0].narrow(1, 4, 5).abs().sum().item<double>(), 0);
  EXPECT_EQ(found.phi[1].abs().sum().item<double>(), 0);
  EXPECT_EQ(found.peak[1].item<double>(), -1e30);
}

TEST(ExponentialFeatures, HaveTheGradientOfTheFormula) {
  const auto x = random_normal({2, 3, 70, 5}, 1).requires_grad_(),
             omega = random_normal({1, 19, 5}, 2), direction = random_normal({2, 3, 70, 19}, 3);
  for (const auto peak : {Peak::token, Peak::head}) {
    const auto found = exponential_features(x, omega, 0.6, {}, peak);
    (found.phi * direction).sum().backward();
    const auto got = x.grad().clone();
    x.mutable_grad() = Tensor();
    ((exponents(x, omega, 0.6) - found.peak).exp() * direction).sum().backward();
    EXPECT_NEAR_TENSOR(got, x.grad(), tolerance(at::kDouble));
    x.mutable_grad() = Tensor();
  }
}

TEST(ExponentialFeatures, NameWhatDoesNotFit) {
  EXPECT_NE(
      error_of([] {
        exponential_features(at::zeros({1, 2, 3, 4}), at::zeros({1, 5, 3}), 1, {}, Peak::token);
      }).find("exponential_features: x is [1, 2, 3, 4] Float on cpu, omega [1, 5, 3]"),
      std::string::npos);
  const auto x = at::zeros({4, 2, 3, 4}), omega = at::zeros({1, 5, 4});
  const auto error = [&](const Tensor& keep) {
    return error_of([&] { exponential_features(x, omega, 1, keep, Peak::head); });
  };
  EXPECT_EQ(error(at::ones({4, 2}, at::kBool)),
            "exponential_features: keep is Bool [4, 2], but x is [4, 2, 3, 4]");
  EXPECT_EQ(error(at::ones({2, 3}, at::kBool)),
            "exponential_features: keep is Bool [2, 3], but x is [4, 2, 3, 4]");
  EXPECT_EQ(error(at::ones({3}, at::kBool)),
            "exponential_features: keep is Bool [3], but x is [4, 2, 3, 4]");
  EXPECT_EQ(error(at::ones({4, 3})),
            "exponential_features: keep is Float [4, 3], but x is [4, 2, 3, 4]");
}

TEST(ExponentialFeatures, TakeNoTokens) {
  for (const auto peak : {Peak::token, Peak::head}) {
    const auto found =
        exponential_features(at::zeros({2, 3, 0, 4}), at::zeros({1, 5, 4}), 1, {}, peak);
    EXPECT_EQ(found.phi.sizes(), at::IntArrayRef({2, 3, 0, 5}));
    EXPECT_EQ(found.peak.sizes(), at::IntArrayRef({2, 3, peak == Peak::head ? 1 : 0, 1}));
  }
}

TEST(ExponentialFeatures, ProjectionsThatChangedBeforeTheBackwardPassAreAnError) {
  const auto x = random_normal({1, 2, 9, 4}, 1).requires_grad_(),
             omega = random_normal({1, 6, 4}, 2);
  const auto phi = exponential_features(x, omega, 1, {}, Peak::token).phi;
  omega.mul_(2);
  EXPECT_NE(error_of([&] { phi.sum().backward(); }).find("modified by an inplace operation"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

#include "longbow/ops/damped_modes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/ops/registered.h"
#include "tests/support/tensor.h"

namespace longbow {
namespace {

DampedAverage drawn(double size) {
  const auto one = [&](uint64_t seed) {
    return (size * random_normal({6, 3}, seed)).requires_grad_();
  };
  return {one(1), one(2), one(3), one(4)};
}

TEST(DampedModes, AreThoseOfTheirWords) {
  const auto x = drawn(1);
  const auto found = damped_modes(x, 4, 0.25, -200);
  const auto p = x.delta.sigmoid();
  EXPECT_NEAR_TENSOR(found.rate, (1 - p * x.alpha.sigmoid()).log().narrow(0, 0, 4),
                     tolerance(at::kDouble));
  EXPECT_NEAR_TENSOR(found.weight, (p * x.beta * x.eta / 4).narrow(0, 0, 4),
                     tolerance(at::kDouble));
  EXPECT_EQ(damped_modes(drawn(1e4), 6, 1, -200).rate.min().item<double>(), -200);
}

TEST(DampedModes, GradientsAreThoseOfDifferences) {
  const auto x = drawn(1);
  for (const double fastest : {-200.0, -0.3})
    EXPECT_TRUE(gradcheck(
        [&] {
          const auto found = damped_modes(x, 4, 0.25, fastest);
          return found.rate.exp() + found.weight.square();
        },
        {{"delta", x.delta}, {"alpha", x.alpha}, {"beta", x.beta}, {"eta", x.eta}}));
}

TEST(DampedModes, AreRegistered) {
  EXPECT_EQ(missing_kernels("damped_modes"), "");
  EXPECT_EQ(missing_kernels("damped_modes_backward"), "");
}

TEST(DampedModes, NameWhatDoesNotFit) {
  const auto x = at::zeros({6, 3});
  EXPECT_NE(error_of([&] {
              damped_modes({x, x, at::zeros({5, 3}), x}, 4, 1, -1);
            }).find("damped_modes: 4 rows of [5, 3] Float beside [6, 3] Float"),
            std::string::npos);
}

}  // namespace
}  // namespace longbow

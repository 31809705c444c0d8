#include "longbow/models/perceiver/fourier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

TEST(Fourier, FeaturesAreThoseOfTheFormula) {
  // f = 1, 2.5, 4: three equal steps up to half of 8.
  const auto places = at::tensor({-1.0, -0.3, 0.0, 0.7, 1.0}, at::kDouble);
  const auto features = fourier_features(places, 3, 8);
  ASSERT_EQ(features.sizes(), (at::IntArrayRef{5, 7}));
  for (int64_t i = 0; i < 5; ++i) {
    const double p = places[i].item<double>();
    for (int64_t k = 0; k < 3; ++k) {
      const double angle = std::numbers::pi * (1 + 1.5 * static_cast<double>(k)) * p;
      EXPECT_NEAR(features[i][k].item<double>(), std::sin(angle), 1e-14);
      EXPECT_NEAR(features[i][3 + k].item<double>(), std::cos(angle), 1e-14);
    }
    EXPECT_EQ(features[i][6].item<double>(), p);
  }
}

TEST(Fourier, ALineGoesFromMinusOneToOne) {
  const FourierConfig config = {.bands = 2, .max_frequency = 6};
  EXPECT_EQ(config.channels(), 5);
  const auto table = fourier_table(config, 5);
  const auto want = fourier_features(at::tensor({-1.0, -0.5, 0.0, 0.5, 1.0}, at::kDouble), 2, 6);
  EXPECT_NEAR_TENSOR(table, want.to(at::kFloat), kExact);
}

// The highest frequency of an axis is half of its length unless the config says so.
TEST(Fourier, AGridHasTheFeaturesOfEveryAxis) {
  const FourierConfig config = {.bands = 2, .sides = {3, 5}};
  EXPECT_EQ(config.channels(), 10);
  const auto table = fourier_table(config, 14);  // the last place is not used
  ASSERT_EQ(table.sizes(), (at::IntArrayRef{14, 10}));
  const auto rows = fourier_features(at::linspace(-1, 1, 3, at::kDouble), 2, 3).to(at::kFloat);
  const auto columns = fourier_features(at::linspace(-1, 1, 5, at::kDouble), 2, 5).to(at::kFloat);
  for (int64_t t = 0; t < 14; ++t)
    EXPECT_NEAR_TENSOR(table[t], at::cat({rows[t / 5], columns[t % 5]}), kExact) << t;
}

TEST(Fourier, WithoutBandsThereAreNoChannels) {
  EXPECT_EQ(FourierConfig{}.channels(), 0);
}

TEST(Fourier, OnePlaceAndOneBandAreEnough) {
  const auto table = fourier_table({.bands = 1}, 1);
  EXPECT_NEAR_TENSOR(table, at::tensor({0.0F, -1.0F, -1.0F}).view({1, 3}), (Tolerance{1e-6, 0}));
}

TEST(Fourier, AGridThatIsTooSmallIsRefused) {
  EXPECT_EQ(error_of([] {
              fourier_table({.bands = 1, .sides = {2, 3}}, 7);
            }),
            "fourier features: a grid of 6 places for 7 tokens");
}

}  // namespace
}  // namespace longbow

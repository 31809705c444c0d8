#include "longbow/nn/features/feature_maps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/tensor.h"

namespace longbow {
namespace {

using at::Tensor;

const std::vector<double> kPoints = {-80, -20, -9, -6.5, -5, -1, -0.125, 0, 0.125, 1, 5, 40, 300};

Tensor points(at::ScalarType type) {
  return at::tensor(kPoints, at::kDouble).to(type);
}

// Of the value in float64; half an ulp is lost by rounding once, some more by an inexact exp.
double precision_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-7 : type == at::kFloat ? 1e-5 : 1e-12;
}

using Map = Tensor (*)(const Tensor&);

void expect_relative_precision(Map map, double (*definition)(double), double least) {
  for (const auto type : {at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto x = points(type), y = map(x);
    EXPECT_EQ(y.scalar_type(), type);
    for (int64_t i = 0; i < x.size(0); ++i) {
      const auto at_x = x[i].item<double>(), want = definition(at_x);
      if (at_x >= least)
        EXPECT_NEAR(y[i].item<double>(), want, precision_of(type) * want) << type << " " << at_x;
    }
  }
}

TEST(FeatureMaps, EluPlusOneKeepsItsRelativePrecisionBelowZero) {
  expect_relative_precision(
      elu_plus_one, [](double x) { return x > 0 ? x + 1 : std::exp(x); }, -80);
}

TEST(FeatureMaps, TanhPlusOneKeepsItsRelativePrecisionBelowZero) {
  expect_relative_precision(
      tanh_plus_one, [](double x) { return 2 / (1 + std::exp(-2 * x)); }, -20);
}

TEST(FeatureMaps, EluPlusOneHasTheGradientOfItsDefinition) {
  auto x = at::tensor({-700.0, -3.0, -0.5, 0.5, 3.0, 700.0}, at::kDouble).requires_grad_();
  EXPECT_TRUE(gradcheck([&] { return elu_plus_one(x); }, {{"x", x}}));
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    const auto at_points = points(type).requires_grad_();
    elu_plus_one(at_points).sum().backward();
    EXPECT_NEAR_TENSOR(at_points.grad().to(at::kDouble),
                       points(type).to(at::kDouble).clamp_max(0).exp(),
                       (Tolerance{0, precision_of(type)}));
  }
}

TEST(FeatureMaps, BoundedExpLeavesRoomForSums) {
  const auto x = at::tensor({-100.0, 0.0, 34.0, 35.0, 89.0, 1e30}, at::kFloat).requires_grad_();
  const auto y = bounded_exp(x);
  EXPECT_NEAR_TENSOR(y.narrow(0, 0, 3), x.narrow(0, 0, 3).exp(), kExact);
  EXPECT_TRUE((y * y * 1e8).isfinite().all().item<bool>());
  EXPECT_EQ(y[4].item<double>(), y[3].item<double>());
  y.sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  EXPECT_EQ(x.grad()[5].item<double>(), 0);
  EXPECT_TRUE(bounded_exp(x.detach().to(at::kBFloat16)).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace longbow

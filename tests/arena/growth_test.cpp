#include "longbow/arena/growth.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longbow::arena {
namespace {

Curve power(double exponent, double factor) {
  Curve curve;
  for (double length = 64; length <= 1024; length *= 2)
    curve.emplace_back(length, factor * std::pow(length, exponent));
  return curve;
}

TEST(Quantile, IsInterpolatedBetweenTheSortedValues) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({5, 1, 3}, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.2), 2);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 1), 10);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.8), 7);
}

TEST(Exponent, OfAPowerLawIsItsPower) {
  EXPECT_NEAR(exponent(power(2, 3)).value(), 2, 1e-12);
  EXPECT_NEAR(exponent(power(0.5, 1e-9)).value(), 0.5, 1e-12);
}

TEST(Exponent, NeedsTwoLengthsWithACost) {
  EXPECT_FALSE(exponent({}));
  EXPECT_FALSE(exponent({{64, 1}}));
  EXPECT_FALSE(exponent({{64, 1}, {64, 2}}));
  EXPECT_FALSE(exponent({{64, 0}, {128, 2}}));
}

TEST(Crossover, IsWhereTheTwoLawsMeet) {
  EXPECT_NEAR(crossover(power(1, 300), power(2, 1)).value(), 300, 1e-6);
}

TEST(Crossover, IsTheFirstLengthForWhatIsAlwaysFaster) {
  EXPECT_DOUBLE_EQ(crossover(power(1, 1), power(2, 1)).value(), 64);
}

TEST(Crossover, IsNothingForWhatIsSlowerAtTheEnd) {
  EXPECT_FALSE(crossover(power(2, 1), power(1, 300)));
  EXPECT_FALSE(crossover({}, power(1, 1)));
  EXPECT_FALSE(crossover(power(1, 1), power(1, 1)));
}

TEST(Crossover, CountsOnlyFromWhereTheCurveStaysBelow) {
  const Curve curve = {{64, 1}, {128, 9}, {256, 2}}, flat = {{64, 4}, {128, 4}, {256, 4}};
  const double found = crossover(curve, flat).value();
  EXPECT_GT(found, 128);
  EXPECT_LT(found, 256);
}

TEST(Crossover, ComparesEqualLengthsWhenOneCurveHasGaps) {
  const Curve late = {{128, 3}, {256, 5}}, baseline = {{64, 4}, {128, 4}, {256, 4}};
  EXPECT_FALSE(crossover(late, baseline));
  const Curve early = {{64, 1}, {256, 2}};
  EXPECT_DOUBLE_EQ(crossover(early, baseline).value(), 64);
}

}  // namespace
}  // namespace longbow::arena

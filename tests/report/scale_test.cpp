#include "longbow/report/scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longbow::reporting {
namespace {

using Values = std::vector<double>;

TEST(Scale, LinearLimitsAreRoundAndHoldEveryValue) {
  auto scale = fitted(Spacing::linear, {52.3, 57.9});
  EXPECT_DOUBLE_EQ(scale.low, 52);
  EXPECT_DOUBLE_EQ(scale.high, 58);
  EXPECT_EQ(ticks(scale), (Values{52, 53, 54, 55, 56, 57, 58}));
}

TEST(Scale, TicksAreNiceForAnyRange) {
  for (auto span : {1e-7, 0.013, 0.9, 7.0, 23.0, 480.0, 6e9}) {
    auto marks = ticks(fitted(Spacing::linear, {-span / 3, span}));
    ASSERT_GE(marks.size(), 3u) << span;
    EXPECT_LE(marks.size(), 9u) << span;
    auto step = marks[1] - marks[0];
    auto leading = step / std::pow(10, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::abs(leading - 1) < 1e-6 || std::abs(leading - 2) < 1e-6 ||
                std::abs(leading - 2.5) < 1e-6 || std::abs(leading - 5) < 1e-6)
        << step;
  }
}

TEST(Scale, LogTicksAreDecadesOrTheirParts) {
  EXPECT_EQ(ticks({Spacing::logarithmic, 0.9, 120000}), (Values{1, 10, 100, 1000, 10000, 100000}));
  EXPECT_EQ(ticks({Spacing::logarithmic, 15, 120}), (Values{20, 50, 100}));
  EXPECT_GE(ticks({Spacing::logarithmic, 20, 24}).size(), 3u);
}

TEST(Scale, BinaryTicksArePowersOfTwo) {
  EXPECT_EQ(binary_ticks({Spacing::logarithmic, 1000, 20000}),
            (Values{1024, 2048, 4096, 8192, 16384}));
  EXPECT_LE(binary_ticks({Spacing::logarithmic, 1, 1e12}).size(), 7u);
}

TEST(Scale, MapsItsLimitsToZeroAndOne) {
  Scale logarithmic{Spacing::logarithmic, 1, 100};
  EXPECT_DOUBLE_EQ(logarithmic.at(10), 0.5);
  EXPECT_DOUBLE_EQ(logarithmic.at(100), 1);
  EXPECT_DOUBLE_EQ((Scale{Spacing::linear, 2, 4}.at(3)), 0.5);
}

TEST(Scale, NothingOneValueAndNanStillGiveAnAxis) {
  auto nan = std::numeric_limits<double>::quiet_NaN();
  for (auto& values : {Values{}, Values{3}, Values{0, 0}, Values{nan, 2}})
    for (auto spacing : {Spacing::linear, Spacing::logarithmic}) {
      auto scale = fitted(spacing, values);
      EXPECT_LT(scale.low, scale.high);
      EXPECT_FALSE(ticks(scale).empty());
    }
}

TEST(Scale, TickLabelsAreShort) {
  EXPECT_EQ(plain_tick(0.25), "0.25");
  EXPECT_EQ(plain_tick(1500), "1500");
  EXPECT_EQ(plain_tick(20000), "20k");
  EXPECT_EQ(plain_tick(3e6), "3M");
  EXPECT_EQ(plain_tick(0.1 + 0.2), "0.3");
}

}  // namespace
}  // namespace longbow::reporting

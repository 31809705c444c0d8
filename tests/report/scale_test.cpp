#include "longbow/report/draw/scale.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace longbow::reporting {
namespace {

using Values = std::vector<double>;
using Limits = std::numeric_limits<double>;

// "" when the marks are few, strictly increasing and inside the limits, each with a place on the
// axis.
std::string wrong_with(const Values& marks, const Scale& scale) {
  if (marks.size() > 12) return "more than 12 ticks";
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!(marks[i] >= scale.low && marks[i] <= scale.high)) return "a tick outside the limits";
    if (i > 0 && !(marks[i - 1] < marks[i])) return "ticks that do not increase";
    const auto place = scale.at(marks[i]);
    if (!(place >= -1e-9 && place <= 1 + 1e-9)) return "a tick without a place";
  }
  return "";
}

// The same of the axis that holds the values, which must also have limits that can be drawn.
std::string wrong_with_fit(Spacing spacing, const Values& values) {
  const auto scale = fitted(spacing, values);
  if (!std::isfinite(scale.low) || !std::isfinite(scale.high)) return "infinite limits";
  if (!(scale.low < scale.high)) return "empty limits";
  if (spacing == Spacing::logarithmic && !(scale.low > 0)) return "a limit without a logarithm";
  for (auto value : values) {
    const bool shown = std::isfinite(value) && (spacing == Spacing::linear || value > 0);
    if (shown && !(scale.low <= value && value <= scale.high)) return "a value outside the limits";
  }
  const auto marks = ticks(scale);
  return marks.size() < 3 ? "fewer than three ticks" : wrong_with(marks, scale);
}

// Any double but NaN and infinity, denormals as often as other exponents.
double any_double(std::mt19937_64& random) {
  for (;;)
    if (const auto value = std::bit_cast<double>(random()); std::isfinite(value)) return value;
}

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

// Three equal rates have a mean that is one unit in the last place away from them.
TEST(Scale, ValuesOneUlpApartAreOneValue) {
  for (auto value : {1e-300, 3e-4, 1.0, 1e17, 1e300, Limits::denorm_min(), Limits::max() / 2})
    for (auto sign : {1, -1}) {
      const auto next = std::nextafter(sign * value, Limits::infinity());
      for (auto spacing : {Spacing::linear, Spacing::logarithmic}) {
        EXPECT_EQ(wrong_with_fit(spacing, {sign * value, next}), "") << sign * value;
        EXPECT_EQ(wrong_with_fit(spacing, {sign * value, sign * value}), "") << sign * value;
      }
    }
  const auto rate = 0.1, mean = (rate + rate + rate) / 3;
  ASSERT_NE(mean, rate);
  EXPECT_EQ(ticks(fitted(Spacing::linear, {rate, mean})).size(),
            ticks(fitted(Spacing::linear, {rate})).size());
}

TEST(Scale, ExtremeValuesHaveAnAxis) {
  const auto most = Limits::max(), least = Limits::min(), tiny = Limits::denorm_min(),
             infinity = Limits::infinity(), nan = Limits::quiet_NaN();
  for (auto& values :
       {Values{-most, most}, Values{0, most}, Values{-most, -most / 2}, Values{most}, Values{tiny},
        Values{0, tiny}, Values{-tiny, tiny}, Values{tiny, 3 * tiny}, Values{least, least * 1.5},
        Values{tiny, most}, Values{1e-300, 1e300}, Values{0}, Values{-3}, Values{-3, -2},
        Values{infinity, 1, 2}, Values{-infinity, infinity}, Values{nan},
        Values{nan, infinity, 5, -infinity}, Values{1e17, 1e17 + 16}})
    for (auto spacing : {Spacing::linear, Spacing::logarithmic})
      EXPECT_EQ(wrong_with_fit(spacing, values), "")
          << values[0] << " " << values.back() << " " << static_cast<int>(spacing);
}

TEST(Scale, LimitsThatAreNoneHaveNoTicks) {
  const auto infinity = Limits::infinity(), nan = Limits::quiet_NaN();
  for (auto spacing : {Spacing::linear, Spacing::logarithmic})
    for (auto [low, high] :
         {std::pair(1.0, 1.0), std::pair(2.0, 1.0), std::pair(nan, 1.0), std::pair(1.0, nan),
          std::pair(1.0, infinity), std::pair(-infinity, infinity)}) {
      EXPECT_TRUE(ticks({spacing, low, high}).empty()) << low << " " << high;
      EXPECT_TRUE(binary_ticks({spacing, low, high}).empty()) << low << " " << high;
    }
  EXPECT_TRUE(ticks({Spacing::logarithmic, -1, 1}).empty());
  EXPECT_TRUE(ticks({Spacing::logarithmic, 0, 1}).empty());
}

TEST(Scale, TicksOfAnyLimitsAreFewOrderedAndInside) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    auto low = any_double(random), high = any_double(random);
    if (i % 3 == 1) high = low;
    if (i % 3 > 0)
      for (auto ulps = 1 + random() % 64; ulps > 0; --ulps)
        high = std::nextafter(high, Limits::infinity());
    if (high < low) std::swap(low, high);
    if (!std::isfinite(high)) continue;
    const Scale linear{Spacing::linear, low, high};
    ASSERT_EQ(wrong_with(ticks(linear), linear), "") << low << " " << high;
    ASSERT_EQ(wrong_with_fit(Spacing::linear, {low, high}), "") << low << " " << high;
    low = std::abs(low), high = std::abs(high);
    if (high < low) std::swap(low, high);
    const Scale logarithmic{Spacing::logarithmic, low, high};
    ASSERT_EQ(wrong_with(ticks(logarithmic), logarithmic), "") << low << " " << high;
    ASSERT_EQ(wrong_with(binary_ticks(logarithmic), logarithmic), "") << low << " " << high;
    ASSERT_EQ(wrong_with_fit(Spacing::logarithmic, {low, high}), "") << low << " " << high;
  }
}

// Random limits of every kind are mostly far apart; these are as close as those of real figures.
TEST(Scale, EveryAxisHasAtLeastThreeTicks) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-9, 9), ratio(1.0001, 50);
  for (int i = 0; i < 20000; ++i) {
    const auto low = std::pow(10, exponent(random)), high = low * ratio(random);
    for (auto spacing : {Spacing::linear, Spacing::logarithmic})
      for (auto about : {4, 5, 6}) {
        const Scale scale{spacing, low, high};
        ASSERT_GE(ticks(scale, about).size(), 3u) << low << " " << high << " " << about;
        ASSERT_EQ(wrong_with(ticks(scale, about), scale), "") << low << " " << high;
      }
    const Scale bytes{Spacing::logarithmic, low, high};
    ASSERT_GE(binary_ticks(bytes).size(), 3u) << low << " " << high;
    ASSERT_EQ(wrong_with(binary_ticks(bytes), bytes), "") << low << " " << high;
  }
}

TEST(Scale, TickLabelsAreShort) {
  EXPECT_EQ(plain_tick(0.25), "0.25");
  EXPECT_EQ(plain_tick(1500), "1500");
  EXPECT_EQ(plain_tick(20000), "20k");
  EXPECT_EQ(plain_tick(3e6), "3M");
  EXPECT_EQ(plain_tick(0.1 + 0.2), "0.3");
  EXPECT_EQ(plain_tick(1e-5), "1e-5");
  EXPECT_EQ(plain_tick(1e300), "1e+300");
}

TEST(Scale, TickLabelsTellNeighboursApart) {
  for (auto& values :
       {Values{1, 1.0002}, Values{57.31, 57.3101}, Values{12345, 12346}, Values{1e6, 1e6 + 1}}) {
    const auto marks = ticks(fitted(Spacing::linear, values));
    const auto text = tick_text(marks);
    std::set<std::string> labels;
    for (auto mark : marks) labels.insert(text(mark));
    EXPECT_EQ(labels.size(), marks.size()) << values[0];
  }
  EXPECT_EQ(tick_text({0, 0.5, 1})(0.5), "0.5");
  EXPECT_EQ(tick_text({})(0.25), "0.25");
}

}  // namespace
}  // namespace longbow::reporting

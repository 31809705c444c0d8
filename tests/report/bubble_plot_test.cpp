#include "longbow/report/bubble_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

BubblePlot plot() {
  Axis x{.label = "speed",
         .scale = {Spacing::logarithmic, 10, 1000},
         .marks = {10, 100, 1000},
         .text = tick_text({})};
  Axis y{.label = "score",
         .scale = {Spacing::linear, 50, 60},
         .marks = {50, 55, 60},
         .text = tick_text({})};
  BubblePlot result{.title = "t",
                    .description = "d",
                    .x = x,
                    .y = y,
                    .bubbles = {},
                    .levels = {},
                    .size_label = ""};
  result.bubbles = {{.label = "small",
                     .hint = "h",
                     .look = {.colour = "red", .dash = ""},
                     .x = 50,
                     .y = 55,
                     .size = 1},
                    {.label = "large",
                     .hint = "h",
                     .look = {.colour = "red", .dash = ""},
                     .x = 500,
                     .y = 58,
                     .deviation = 1,
                     .size = 4}};
  return result;
}

std::vector<double> radii(const std::string& svg) {
  std::vector<double> result;
  std::regex pattern("<circle[^>]* r=\"([0-9.]+)\"");
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    result.push_back(std::stod((*match)[1]));
  return result;
}

TEST(BubblePlot, TheAreaIsTheSize) {
  auto found = radii(bubble_plot(plot()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0], 2 * found[1], 0.11);
}

TEST(BubblePlot, ErrorBarsStandOnlyWhereSeedsDiffer) {
  auto svg = bubble_plot(plot());
  EXPECT_EQ(sample::count(svg, "class=\"bar\""), 1u);
  EXPECT_EQ(sample::unbalanced(svg), "");
}

TEST(BubblePlot, ABubbleWithoutASizeIsHollow) {
  auto input = plot();
  input.bubbles[0].size.reset();
  EXPECT_EQ(sample::count(bubble_plot(input), "bubble hollow"), 1u);
}

TEST(BubblePlot, LabelsOfNeighboursDoNotShareAPlace) {
  auto input = plot();
  input.bubbles[1].x = input.bubbles[0].x;
  input.bubbles[1].y = input.bubbles[0].y;
  auto svg = bubble_plot(input);
  std::regex pattern("<text ([^>]*)class=\"label\"");
  std::sregex_iterator match(svg.begin(), svg.end(), pattern);
  auto first = (*match)[1].str();
  EXPECT_NE(first, (*++match)[1].str());
}

TEST(BubblePlot, ABaselineIsALineOrAnArrowOutsideTheAxis) {
  auto input = plot();
  input.levels = {{"near", 52}, {"far", 10}};
  auto svg = bubble_plot(input);
  EXPECT_EQ(sample::count(svg, "class=\"level\""), 1u);
  EXPECT_NE(svg.find(">↓ far</text>"), std::string::npos);
}

}  // namespace
}  // namespace longbow::reporting

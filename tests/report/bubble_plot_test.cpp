#include "longbow/report/draw/bubble_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

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

// Forty bubbles in one place have no room for forty names.
TEST(BubblePlot, WhatHasNoRoomForANameHasANumber) {
  auto input = plot();
  const auto bubble = input.bubbles[0];
  input.bubbles.clear();
  for (int i = 0; i < 40; ++i) {
    input.bubbles.push_back(bubble);
    input.bubbles.back().label = "mechanism " + std::to_string(10 + i);
  }
  for (auto width : {Width::wide, Width::narrow}) {
    auto svg = bubble_plot(input, width);
    EXPECT_EQ(sample::unbalanced(svg), "");
    for (auto& each : input.bubbles)
      EXPECT_EQ(sample::count(svg, ">" + each.label + "<"), 1u) << each.label;
    EXPECT_EQ(sample::count(svg, ">1<"), 2u) << "beside the bubble and in the legend";
  }
}

TEST(BubblePlot, BaselinesAtOneHeightAreReadOneAboveTheOther) {
  auto input = plot();
  input.levels = {{"first", 52}, {"second", 52}};
  auto svg = bubble_plot(input);
  std::regex pattern("y=\"([0-9.]+)\"[^>]*>(first|second)<");
  std::vector<double> heights;
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    heights.push_back(std::stod((*match)[1]));
  ASSERT_EQ(heights.size(), 2u);
  EXPECT_GE(std::abs(heights[0] - heights[1]), 14);
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

#include "longbow/report/draw/heat_map.h"

#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

std::vector<std::string> fills(const std::string& svg) {
  std::vector<std::string> found;
  std::regex pattern("<path d=\"([^\"]*)\" fill=\"(#[0-9a-f]{6})\"/>");
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[2].str() + " " + (*match)[1].str());
  return found;
}

HeatGrid one(const HeatMap& map) {
  return {"maps", "weights", {"Layer 1"}, {"Head 1"}, {map}};
}

TEST(HeatMap, TheSmallestValueIsWhiteAndTheLargestRed) {
  const auto found = fills(heat_grid(one({2, 2, {0, 0, 0, 1}})));
  // 80 x 80 cells from (80, 66): the first row is one rectangle.
  EXPECT_EQ(found,
            (std::vector<std::string>{
                "#fff5f0 M80.00 66.00h160.00v80.00h-160.00zM80.00 146.00h80.00v80.00h-80.00z",
                "#a50f15 M160.00 146.00h80.00v80.00h-80.00z"}));
}

TEST(HeatMap, EqualValuesAreOneShade) {
  const auto svg = heat_grid(one({2, 2, {3, 3, 3, 3}}));
  EXPECT_EQ(fills(svg).size(), 1u);
  EXPECT_EQ(sample::count(svg, ">3<"), 1u) << svg;
}

TEST(HeatMap, EveryMapHasAColourScaleOfItsOwn) {
  const auto svg = heat_grid({"", "", {"a"}, {"1", "2"}, {{1, 2, {0, 0.25f}}, {1, 2, {1, 800}}}});
  EXPECT_EQ(sample::count(svg, "fill=\"url(#shades)\""), 2u) << svg;
  EXPECT_EQ(sample::count(svg, "<linearGradient"), 1u);
  for (const auto* value : {">0<", ">0.25<", ">1<", ">800<"})
    EXPECT_EQ(sample::count(svg, value), value == std::string(">1<") ? 2u : 1u) << value << svg;
  EXPECT_NE(svg.find("<stop offset=\"0\" stop-color=\"#fff5f0\"/>"), std::string::npos);
  EXPECT_NE(svg.find("<stop offset=\"1\" stop-color=\"#a50f15\"/>"), std::string::npos);
  EXPECT_EQ(sample::unbalanced(svg), "");
}

TEST(HeatMap, AxesHaveTitles) {
  HeatMap map = {1, 2, {1, 2}, {"query"}, {"k", "l"}, "queries", "keys"};
  const auto svg = heat_grid({"", "", {"Layer 1"}, {"Head 1", "Head 2"}, {map, map}});
  EXPECT_EQ(sample::count(svg, ">queries<"), 1u) << "beside the first map: " << svg;
  EXPECT_EQ(sample::count(svg, ">keys<"), 2u) << "below each map: " << svg;
}

TEST(HeatMap, WhatIsNotFiniteIsBlank) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fills(heat_grid(one({2, 2, {0, nan, infinity, 1}}))),
            (std::vector<std::string>{"#fff5f0 M80.00 66.00h80.00v80.00h-80.00z",
                                      "#a50f15 M160.00 146.00h80.00v80.00h-80.00z"}));
  EXPECT_TRUE(fills(heat_grid(one({1, 1, {nan}}))).empty());
}

TEST(HeatMap, ALargeMapIsShownByItsMeans) {
  HeatMap map = {128, 1, {}};
  for (int i = 0; i < 128; ++i) map.values.push_back(i < 64 ? 0 : static_cast<float>(i % 2 * 2));
  // Pairs of 0 and 2 in the lower half: one shade, not two.
  EXPECT_EQ(fills(heat_grid(one(map))).size(), 2u);
}

TEST(HeatMap, AGridHasAMapForEveryLayerAndHead) {
  const HeatMap map = {1, 1, {1}};
  const auto svg = heat_grid({"a < b",
                              "",
                              {"Layer 1", "Layer 2"},
                              {"Head 1", "Head 2", "Head 3"},
                              {map, map, map, map, map, map}});
  EXPECT_EQ(sample::count(svg, "<rect"), 6u);
  EXPECT_EQ(sample::count(svg, ">Layer 2<"), 1u);
  EXPECT_EQ(sample::count(svg, ">Head 3<"), 1u);
  EXPECT_EQ(sample::count(svg, "a &lt; b"), 2u);
  EXPECT_EQ(sample::unbalanced(svg), "");
}

TEST(HeatMap, NamesStandBesideTheFirstMapAndBelowEach) {
  const HeatMap map = {1, 2, {1, 2}, {"query"}, {"key", "a very long name"}};
  const auto svg = heat_grid({"", "", {"Layer 1"}, {"Head 1", "Head 2"}, {map, map}});
  EXPECT_EQ(sample::count(svg, ">query<"), 1u) << svg;
  EXPECT_EQ(sample::count(svg, ">key<"), 2u) << svg;
  EXPECT_EQ(sample::count(svg, ">a very…ame<"), 2u) << svg;
  EXPECT_EQ(sample::count(svg, "rotate(-90"), 4u) << svg;
  EXPECT_EQ(sample::unbalanced(svg), "");
}

TEST(HeatMap, ManyNamesAreNotDrawn) {
  HeatMap map = {41, 1, std::vector<float>(41, 0), std::vector<std::string>(41, "token"), {}};
  EXPECT_EQ(sample::count(heat_grid(one(map)), ">token<"), 0u);
  map = {40, 1, std::vector<float>(40, 0), std::vector<std::string>(40, "token"), {}};
  EXPECT_EQ(sample::count(heat_grid(one(map)), ">token<"), 40u);
}

TEST(HeatMap, ALayerMayHaveFewerHeads) {
  const HeatMap map = {1, 1, {1}};
  const auto svg = heat_grid({"", "", {"a", "b"}, {"Head 1", "Head 2"}, {map, {}, map, map}});
  EXPECT_EQ(sample::count(svg, "<rect"), 3u);
}

TEST(HeatMap, CountsMustAgree) {
  EXPECT_THROW(heat_grid(one({1, 1, {1}, {"a", "b"}, {}})), std::invalid_argument);
  EXPECT_THROW(heat_grid({"", "", {"a"}, {"b", "c"}, {{1, 1, {1}}}}), std::invalid_argument);
  EXPECT_THROW(heat_grid(one({2, 2, {1, 2, 3}})), std::invalid_argument);
}

}  // namespace
}  // namespace longbow::reporting

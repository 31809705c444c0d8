#include "longbow/report/draw/legend.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

std::vector<LegendEntry> entries(int count, const std::string& words) {
  std::vector<LegendEntry> result;
  for (int i = 0; i < count; ++i)
    result.push_back({.words = words + std::to_string(i), .look = {.colour = "red", .dash = ""}});
  return result;
}

size_t columns(const std::string& svg) {
  std::set<std::string> places;
  std::regex pattern("<text x=\"([0-9.]+)\"");
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    places.insert((*match)[1]);
  return places.size();
}

std::string drawn(const std::vector<LegendEntry>& legend, double width) {
  Drawing drawing(width, 100, "t", "d");
  draw_legend(drawing, legend);
  return drawing.str();
}

TEST(Legend, HasAsManyColumnsAsFit) {
  EXPECT_EQ(columns(drawn(entries(6, "name "), 360)), 3u);
  EXPECT_EQ(columns(drawn(entries(6, "name "), 760)), 6u);
  EXPECT_EQ(columns(drawn(entries(6, "a name that is rather long "), 360)), 1u);
}

TEST(Legend, TheDrawingGrowsByItsRows) {
  Drawing drawing(360, 100, "t", "d");
  draw_legend(drawing, {});
  EXPECT_EQ(drawing.height(), 100);
  draw_legend(drawing, entries(6, "name "));
  EXPECT_EQ(drawing.height(), 100 + 2 * 19 + 6);
}

TEST(Legend, LongNamesAreCutButTheirEndsStay) {
  auto svg = drawn(entries(1, std::string(80, 'x') + " version "), 360);
  EXPECT_NE(svg.find("…x"), std::string::npos) << svg;
  EXPECT_NE(svg.find(" version 0<"), std::string::npos) << svg;
  EXPECT_NE(drawn(entries(2, "nystromformer "), 360).find(">nystromformer 0<"), std::string::npos);
}

TEST(Legend, ManyLongNamesShareTwoColumnsOfAWideFigure) {
  const std::string name = "a mechanism whose label is a whole sentence, number ";
  EXPECT_EQ(columns(drawn(entries(40, name), 760)), 2u);
  EXPECT_EQ(columns(drawn(entries(40, name), 360)), 1u);
  EXPECT_EQ(columns(drawn(entries(4, name), 760)), 1u);
}

TEST(Legend, EverySignIsDrawn) {
  auto legend = entries(4, "<i>");
  legend[1].sign = LegendEntry::Sign::dot;
  legend[2].sign = LegendEntry::Sign::ring;
  legend[3].sign = LegendEntry::Sign::number;
  legend[3].number = "7";
  auto svg = drawn(legend, 360);
  EXPECT_EQ(sample::unbalanced(svg), "");
  EXPECT_EQ(sample::count(svg, "<polyline"), 1u);
  EXPECT_EQ(sample::count(svg, "<circle"), 2u);
  EXPECT_EQ(sample::count(svg, "hollow-dot"), 1u);
  EXPECT_EQ(sample::count(svg, ">7<"), 1u);
}

}  // namespace
}  // namespace longbow::reporting

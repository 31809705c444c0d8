#include "longbow/report/draw/line_plot.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

LinePlot plot(Spacing spacing) {
  Axis axis{
      .label = "axis", .scale = {spacing, 1, 100}, .marks = {1, 10, 100}, .text = tick_text({})};
  return {.title = "t", .description = "d", .x = axis, .y = axis, .series = {}, .rings = {}};
}

Series series(const std::string& label) {
  return {.label = label,
          .kind = "",
          .look = {.colour = "var(--c1)", .dash = ""},
          .points = {{1, 10, 8, 12}, {10, 20, 18, 22}, {100, 50, 45, 55}}};
}

TEST(LinePlot, DrawsALineABandAndALabelPerSeries) {
  auto input = plot(Spacing::logarithmic);
  input.series = {series("<i>"), series("b")};
  auto svg = line_plot(input);
  EXPECT_EQ(sample::unbalanced(svg), "");
  EXPECT_EQ(sample::count(svg, "class=\"line\""), 2u);
  EXPECT_EQ(sample::count(svg, "class=\"band\""), 2u);
  EXPECT_NE(svg.find(">&lt;i&gt;</text>"), std::string::npos);
}

TEST(LinePlot, LeavesOutPointsWithoutAPlaceOnALogarithm) {
  auto input = plot(Spacing::logarithmic);
  input.series = {series("a")};
  input.series[0].points = {
      {1, 0, 0, 0}, {10, 5, 5, 5}, {100, std::numeric_limits<double>::quiet_NaN(), 1, 1}};
  auto svg = line_plot(input);
  EXPECT_EQ(sample::count(svg, "<circle"), 1u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(LinePlot, AMissingPointIsAGap) {
  auto input = plot(Spacing::linear);
  input.series = {series("a")};
  auto& points = input.series[0].points;
  for (double x = 20; x < 60; x += 10) points.push_back({x, 30, 30, 30});
  EXPECT_EQ(sample::count(line_plot(input), "class=\"line\""), 1u);
  points[4].y = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sample::count(line_plot(input), "class=\"line\""), 2u);
}

TEST(LinePlot, NamesStandBelowWhereThereIsNoRoomBesideTheLines) {
  auto input = plot(Spacing::linear);
  input.series = {series("a"), series("b")};
  const auto keys = [&](Width width) { return sample::count(line_plot(input, width), "line key"); };
  EXPECT_EQ(keys(Width::wide), 0u);
  EXPECT_EQ(keys(Width::narrow), 2u);
  input.series.push_back(series("linformer with keys and values of its own"));
  EXPECT_EQ(keys(Width::wide), 3u);
  input.series.resize(2);
  for (int i = 0; i < 40; ++i) input.series.push_back(series("m" + std::to_string(i)));
  EXPECT_EQ(keys(Width::wide), 42u);
}

TEST(LinePlot, LabelsOfTicksDoNotTouch) {
  auto input = plot(Spacing::linear);
  input.series = {series("a")};
  input.x = {.label = "axis",
             .scale = {Spacing::linear, 0, 100000},
             .marks = {},
             .text = [](double value) { return std::to_string(static_cast<int>(value)); }};
  for (int i = 0; i <= 100000; i += 5000) input.x.marks.push_back(i);
  const auto svg = line_plot(input, Width::narrow);
  const auto labels = sample::count(svg, "text-anchor=\"middle\"");
  EXPECT_GE(labels, 3u);
  EXPECT_LE(labels, 7u);
}

TEST(LinePlot, ExplainsKindsOnlyWhenThereAreSeveral) {
  auto input = plot(Spacing::linear);
  input.series = {series("a"), series("a")};
  input.series[0].kind = input.series[1].kind = "valid";
  EXPECT_EQ(line_plot(input).find(">valid</text>"), std::string::npos);
  input.series[0].kind = "train";
  input.series[0].faint = true;
  auto svg = line_plot(input);
  EXPECT_NE(svg.find(">valid</text>"), std::string::npos);
  EXPECT_NE(svg.find(">train</text>"), std::string::npos);
  EXPECT_EQ(sample::count(svg, ">a</text>"), 1u);
  EXPECT_EQ(sample::count(svg, "<circle"), 3u) << "points of what is faint are not drawn";
}

TEST(LinePlot, MarksRings) {
  auto input = plot(Spacing::logarithmic);
  input.series = {series("a")};
  input.rings = {{10, 20, "var(--c1)", "from 10"}, {1e6, 20, "var(--c1)", "outside"}};
  auto svg = line_plot(input);
  EXPECT_EQ(sample::count(svg, "class=\"ring\""), 1u);
  EXPECT_NE(svg.find("<title>from 10</title>"), std::string::npos);
}

}  // namespace
}  // namespace longbow::reporting

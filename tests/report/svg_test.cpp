#include "longbow/report/draw/svg.h"

#include <gtest/gtest.h>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(Svg, EscapesWhatMarkupWouldRead) {
  EXPECT_EQ(escaped(R"(<b a="1">'&'</b>)"), "&lt;b a=&quot;1&quot;&gt;&#39;&amp;&#39;&lt;/b&gt;");
}

TEST(Svg, ADrawingHasATitleADescriptionAndBalancedTags) {
  Drawing drawing(100, 50, "a < b", "what \"it\" shows");
  drawing.text(1, 2, "<tspan>", Drawing::Anchor::middle, "tick");
  auto svg = drawing.str();
  EXPECT_EQ(sample::unbalanced(svg), "");
  EXPECT_NE(svg.find("<title>a &lt; b</title><desc>what &quot;it&quot; shows</desc>"),
            std::string::npos);
  EXPECT_NE(svg.find("role=\"img\""), std::string::npos);
}

TEST(Svg, TheCheckerOfTagsCanFail) {
  EXPECT_EQ(sample::unbalanced("<svg><g></svg>"), "/svg");
  EXPECT_EQ(sample::unbalanced("<svg><line/>"), "svg");
}

TEST(Svg, SpreadKeepsOrderDistanceAndLimits) {
  auto places = spread({10, 11, 12, 90, 99}, 15, 0, 100);
  for (size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 15 - 1e-9);
  EXPECT_GE(places.front(), 0);
  EXPECT_LE(places.back(), 100);
  EXPECT_EQ(spread({80, 20}, 15, 0, 100), (std::vector<double>{80, 20}));
}

}  // namespace
}  // namespace longbow::reporting

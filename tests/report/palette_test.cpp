#include "longbow/report/draw/palette.h"

#include <gtest/gtest.h>

#include <set>

namespace longbow::reporting {
namespace {

TEST(Palette, DoesNotDependOnTheOrderOfNames) {
  auto one = palette({"softmax", "linformer", "performer", "gla"});
  auto other = palette({"gla", "performer", "softmax", "linformer", "gla"});
  for (auto& [name, look] : one) EXPECT_EQ(look.colour, other.at(name).colour) << name;
}

TEST(Palette, EightNamesHaveEightColours) {
  std::set<std::string> colours;
  for (auto& [name, look] : palette({"a", "b", "c", "d", "e", "f", "g", "h"}))
    colours.insert(look.colour);
  EXPECT_EQ(colours.size(), 8u);
}

TEST(Palette, BeyondEightADashTellsThemApart) {
  std::vector<std::string> names;
  for (int i = 0; i < 48; ++i) names.push_back("mechanism" + std::to_string(i));
  std::set<std::pair<std::string, std::string>> looks;
  for (auto& [name, look] : palette(names)) looks.emplace(look.colour, look.dash);
  EXPECT_EQ(looks.size(), 48u);
}

TEST(Palette, FusedSoftmaxIsBoldInTheColourOfTheText) {
  auto looks = palette({"softmax", "linear"});
  EXPECT_TRUE(looks.at("softmax").bold);
  EXPECT_EQ(looks.at("softmax").colour, "var(--ink)");
  EXPECT_FALSE(looks.at("linear").bold);
}

}  // namespace
}  // namespace longbow::reporting

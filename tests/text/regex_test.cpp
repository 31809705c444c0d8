#include "longbow/text/unicode/regex.h"

#include <gtest/gtest.h>

#include "longbow/core/error.h"

namespace longbow {
namespace {

std::vector<std::string> matches(const Regex& regex, std::string_view text) {
  std::vector<std::string> found;
  regex.each_match(
      text, [&](size_t begin, size_t end) { found.emplace_back(text.substr(begin, end - begin)); });
  return found;
}

}  // namespace

using Found = std::vector<std::string>;

TEST(Regex, KnowsPropertiesAndLookAhead) {
  const Regex words(" ?\\p{L}+|\\s+(?!\\S)|\\s+");
  EXPECT_EQ(matches(words, "ab  \uac00\u00e9 "), (Found{"ab", " ", " \uac00\u00e9", " "}));
}

TEST(Regex, ClassesAreOnigurumas) {
  EXPECT_EQ(matches(Regex("\\w+"), "a\u0301b \u24b6-\u2460"), (Found{"a\u0301b", "\u24b6"}));
  EXPECT_EQ(matches(Regex("[\\w-]+"), "a-b c"), (Found{"a-b", "c"}));
  EXPECT_EQ(matches(Regex("\\s"), "a\u180e\u3000b"), (Found{"\u3000"}));
  EXPECT_EQ(matches(Regex("[^\\s]+"), "a\u3000b"), (Found{"a", "b"}));
  EXPECT_EQ(matches(Regex("\\S+"), "a\u0085b"), (Found{"a", "b"}));
  EXPECT_EQ(matches(Regex("[]\\s]"), "a] "), (Found{"]", " "})) << "a bracket that comes first";
}

TEST(Regex, EmptyMatchesStandBetweenCharacters) {
  EXPECT_EQ(matches(Regex("x*"), "a\uac00x"), (Found{"", "", "x"}));
  EXPECT_EQ(matches(Regex("x*"), ""), Found{});
}

TEST(Regex, LiteralsAreNotPatterns) {
  EXPECT_EQ(matches(Regex::literal("a.b*"), "aXb a.b*"), (Found{"a.b*"}));
  EXPECT_EQ(matches(Regex::literal("\u2581 #"), "x\u2581 #y"), (Found{"\u2581 #"}));
}

TEST(Regex, ABrokenPatternIsTheUsersMistake) {
  try {
    Regex("(a");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "the pattern '(a' cannot be used: missing closing parenthesis");
  }
  EXPECT_THROW(Regex(std::string(20'000, 'a')), UserError);
}

TEST(Regex, APatternThatExplodesEnds) {
  EXPECT_THROW(matches(Regex("(a+)+$"), std::string(60, 'a') + "b"), UserError);
}

}  // namespace longbow

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

TEST(Regex, ComplementsInClassesAreOnigurumas) {
  EXPECT_EQ(matches(Regex("[\\W_]+"), "a\u0301_-b"), Found{"_-"}) << "a mark is of the word";
  EXPECT_EQ(matches(Regex("[^\\S\\n]+"), "a \n\tb\u180e"), (Found{" ", "\t"}));
  EXPECT_EQ(matches(Regex("[\\s\\S]"), "a\n\u180e"), (Found{"a", "\n", "\u180e"}));
}

TEST(Regex, AClassInAClassIsAUnion) {
  const Regex bloom(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+");
  EXPECT_EQ(matches(bloom, "Hello, world! (so|"), (Found{"Hello", " world", "so"}));
  EXPECT_EQ(matches(Regex("[a[0-9]]+"), "xa5z[]"), Found{"a5"});
  EXPECT_EQ(matches(Regex("[a[^b-z]]+"), "abzA1"), (Found{"a", "A1"}));
  EXPECT_EQ(matches(Regex("[^a[^b-z]]+"), "abzA1"), Found{"bz"});
}

TEST(Regex, ClassesAreIntersected) {
  EXPECT_EQ(matches(Regex("[a-z&&[^c]]+"), "abcd"), (Found{"ab", "d"}));
  EXPECT_EQ(matches(Regex("[^a-z&&[^c]]+"), "abcdE\n"), (Found{"c", "E\n"}));
  EXPECT_EQ(matches(Regex("[a-z&&[b-y]&&^cd&e]+"), "abcde^&f"), Found{"cde"});
  EXPECT_EQ(matches(Regex("[\\p{L}&&[^\\p{Han}]]+"), "ab\u6f22c"), (Found{"ab", "c"}));
  EXPECT_EQ(matches(Regex("[a&&]|b"), "ab"), Found{"b"}) << "nothing is in none";
  EXPECT_EQ(matches(Regex("(?<=[a-z&&[^c]])x"), "axcx"), Found{"x"});
}

TEST(Regex, NamesOfClassesAreOnigurumas) {
  EXPECT_EQ(matches(Regex("[[:alpha:]\\s]+"), "xyz 5 ab"), (Found{"xyz ", " ab"}));
  EXPECT_EQ(matches(Regex("[[:^word:]x]+"), "a\u0301x-b"), Found{"x-"});
  EXPECT_EQ(matches(Regex("[[:space:]]"), "a\u180e\u3000"), Found{"\u3000"});
  EXPECT_EQ(matches(Regex("[:alpha]+"), "l:p-x"), Found{"l:p"}) << "without brackets of its own";
  EXPECT_EQ(matches(Regex("\\h+"), "1fg \tB"), (Found{"1f", "B"})) << "digits, not blanks";
  EXPECT_EQ(matches(Regex("[\\h_]+|\\H"), "a_gF"), (Found{"a_", "g", "F"}));
  EXPECT_EQ(matches(Regex("a\\vb|[\\v]"),
                    "a\x0b"
                    "b\n\x0b"),
            (Found{"a\x0b"
                   "b",
                   "\x0b"}));
  EXPECT_EQ(matches(Regex("\\u0061[\\u0062-\\u0064]"), "acae"), Found{"ac"});
  EXPECT_EQ(matches(Regex("\\Qa\\E"), "QaEa"), Found{"QaE"}) << "letters that name nothing";
}

TEST(Regex, AScriptHasItsOwnCharactersAlone) {
  EXPECT_EQ(matches(Regex("\\p{Han}+"), "\u6f22\u3002\u5b57"), (Found{"\u6f22", "\u5b57"}));
  EXPECT_EQ(matches(Regex("[\\P{Han}]+"), "\u6f22\u3002a"), Found{"\u3002a"});
  EXPECT_EQ(matches(Regex("\\p{^Han}"), "\u6f22\u3002"), Found{"\u3002"});
}

TEST(Regex, AHyphenIsARangeBetweenCharactersOnly) {
  EXPECT_EQ(matches(Regex("[b-d-z]+"), "bc-zy"), Found{"bc-z"});
  EXPECT_EQ(matches(Regex("[a-[c]]+"), "a-cb"), Found{"a-c"});
  EXPECT_EQ(matches(Regex("[[a-]c]+"), "a-cb"), Found{"a-c"});
  EXPECT_EQ(matches(Regex("[\\w-z]+"), "a-z "), Found{"a-z"});
  EXPECT_EQ(matches(Regex("[+-\\s]+"), "+, -"), (Found{"+", " -"}));
  EXPECT_EQ(matches(Regex("[+--]+"), "*+,-."), Found{"+,-"});
  EXPECT_EQ(matches(Regex("[^]-]+"), "a]-b"), (Found{"a", "b"}));
}

TEST(Regex, AnchorsAreThoseOfLines) {
  EXPECT_EQ(matches(Regex("^a"), "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches(Regex("a$"), "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches(Regex("\\Aa|b\\z"), "a\nab\nb"), (Found{"a", "b"}));
  EXPECT_EQ(matches(Regex("a.b|.c"), "a\nb\rc"), Found{"\rc"}) << "LF alone ends a line";
  EXPECT_EQ(matches(Regex("(?m:a.b)"), "a\nb"), Found{"a\nb"});
}

TEST(Regex, IntervalsAreOnigurumas) {
  EXPECT_EQ(matches(Regex("a{,2}b|a{3,}"), "aaab aaa"), (Found{"aaa", "b", "aaa"}));
  EXPECT_EQ(matches(Regex("a{2}|a{,}|\\{"), "aaa{,}{"), (Found{"aa", "a{,}", "{"}));
}

TEST(Regex, EmptyMatchesStandBetweenCharacters) {
  EXPECT_EQ(matches(Regex("x*"), "a\uac00x"), (Found{"", "", "x"}));
  EXPECT_EQ(matches(Regex("x*"), ""), Found{});
}

TEST(Regex, LiteralsAreNotPatterns) {
  EXPECT_EQ(matches(Regex::literal("a.b*"), "aXb a.b*"), (Found{"a.b*"}));
  EXPECT_EQ(matches(Regex::literal("\u2581 #"), "x\u2581 #y"), (Found{"\u2581 #"}));
  const std::string all = "\\w.[a]{2}(b)*+?^$|-&&#\n";
  EXPECT_EQ(matches(Regex("x" + Regex::escaped(all)), all + "x" + all), Found{"x" + all});
}

TEST(Regex, ABrokenPatternIsTheUsersMistake) {
  const auto refused = [](const std::string& pattern) -> std::string {
    try {
      Regex{pattern};
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("(a"), "the pattern '(a' cannot be used: missing closing parenthesis");
  EXPECT_EQ(refused("[a[b]"),
            "the pattern '[a[b]' cannot be used: missing terminating ] for character class");
  EXPECT_EQ(refused("a{1,2}+"),
            "the pattern 'a{1,2}+' cannot be used: a + after an interval is not supported");
  EXPECT_EQ(refused("a{2}?"),
            "the pattern 'a{2}?' cannot be used: a ? after an interval of one number is not "
            "supported");
  EXPECT_NE(refused(std::string(5'000, '[')).find("its classes are nested too deep"),
            std::string::npos);
  EXPECT_EQ(refused(std::string(20'000, 'a')),
            "a pattern of 20000 bytes is too long; at most 10000");
}

TEST(Regex, APatternThatExplodesEnds) {
  EXPECT_THROW(matches(Regex("(a+)+$"), std::string(60, 'a') + "b"), UserError);
}

TEST(Regex, AGroupIsRepeatedOverALongWord) {
  const std::string word(20'000, 'a');
  EXPECT_EQ(matches(Regex("(?:a|b)+"), word + " b"), (Found{word, "b"}));
}

}  // namespace longbow

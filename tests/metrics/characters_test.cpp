#include "longbow/metrics/characters.h"

#include <gtest/gtest.h>

namespace longbow::metrics {
namespace {

using Words = std::vector<std::string_view>;

TEST(Characters, LowerCaseIsThatOfPython) {
  EXPECT_EQ(lowercase("The CAT 42"), "the cat 42");
  EXPECT_EQ(lowercase("ÄÖÜ ЖЗ ẞ"), "äöü жз ß");
  EXPECT_EQ(lowercase("İstanbul"), "i̇stanbul");
  EXPECT_EQ(lowercase("ΟΔΟΣ ΣΑΣ Σ ΑΣ."), "οδος σας σ ας.");
  EXPECT_EQ(lowercase("Σ́Α ⅣΣ́"), "σ́α ⅳς́");
  EXPECT_EQ(lowercase("서울 NYC"), "서울 nyc");
}

TEST(Characters, WordsAreSplitAtUnicodeWhiteSpace) {
  EXPECT_EQ(split("  a\tb\u00a0c\u3000d\u2028e\x1f"
                  "f\u0085g "),
            (Words{"a", "b", "c", "d", "e", "f", "g"}));
  EXPECT_EQ(split(" \n "), Words{});
  EXPECT_EQ(split("a\u200bb"), Words{"a\u200bb"}) << "a zero-width space is none";
  EXPECT_EQ(trimmed_right(" a b\u3000 "), " a b");
  EXPECT_EQ(trimmed("\u3000 a b "), "a b");
  EXPECT_EQ(trimmed("\u3000"), "");
}

TEST(Characters, CategoriesAreThoseOfUnicode) {
  EXPECT_TRUE(is_punctuation(U'“') && is_punctuation(U'_') && is_punctuation(U'。'));
  EXPECT_FALSE(is_punctuation(U'$') || is_punctuation(U'a'));
  EXPECT_TRUE(is_symbol(U'$') && is_symbol(U'€') && is_symbol(U'^') && is_symbol(U'✓'));
  EXPECT_TRUE(is_number(U'7') && is_number(U'½') && is_number(U'Ⅳ'));
  EXPECT_FALSE(is_number(U'a'));
  EXPECT_TRUE(is_word(U'한') && is_word(U'_') && is_word(U'9'));
  EXPECT_FALSE(is_word(U'\u0301')) << "a combining mark";
  int marks = 0;
  for (char32_t code = 0; code < 0x80; ++code) marks += is_ascii_punctuation(code);
  EXPECT_EQ(marks, 32);
}

TEST(Characters, BytesThatAreNoUtf8BecomeReplacements) {
  EXPECT_EQ(code_points("a\xff"
                        "b"),
            U"a\ufffd"
            U"b");
  EXPECT_EQ(to_utf8(code_points("한 글")), "한 글");
}

TEST(NumberWords, GivesEqualWordsOneNumber) {
  const std::vector<Words> lists = {{"b", "a", "b"}, {}, {"c", "b"}};
  const auto numbers = number_words(lists);
  EXPECT_EQ(numbers[0], (std::vector<uint32_t>{1, 0, 1}));
  EXPECT_TRUE(numbers[1].empty());
  EXPECT_EQ(numbers[2], (std::vector<uint32_t>{2, 1}));
}

}  // namespace
}  // namespace longbow::metrics

#include "longbow/text/unicode/characters.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace longbow::unicode {

TEST(Characters, WhiteSpaceIsThatOfUnicode) {
  for (const char32_t code : {0x09, 0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2003, 0x2028, 0x3000})
    EXPECT_TRUE(is_white_space(code)) << static_cast<uint32_t>(code);
  for (const char32_t code : {0x08, 0x1c, 0x180e, 0x200b, 0xfeff, 0xac00})
    EXPECT_FALSE(is_white_space(code)) << static_cast<uint32_t>(code);
}

TEST(Characters, SymbolsOfAsciiArePunctuation) {
  for (const char32_t code : {U'$', U'^', U'`', U'~', U'!', char32_t{0x3002}, char32_t{0xff0c}})
    EXPECT_TRUE(is_punctuation(code)) << static_cast<uint32_t>(code);
  for (const char32_t code : {U'a', U'0', U' ', char32_t{0xb4}, char32_t{0x20ac}, char32_t{0xac00}})
    EXPECT_FALSE(is_punctuation(code)) << static_cast<uint32_t>(code);
}

TEST(Characters, WordCharactersAreThoseOfRust) {
  for (const char32_t code : {0x61, 0x5f, 0x301, 0x2160, 0x24b6, 0x200d, 0x203f, 0xac00})
    EXPECT_TRUE(is_word(code)) << static_cast<uint32_t>(code);
  for (const char32_t code : {0x2d, 0x2460, 0xbd, 0x1f600, 0x20})
    EXPECT_FALSE(is_word(code)) << static_cast<uint32_t>(code);
}

TEST(Characters, ControlLeavesTabAndLineEnds) {
  for (const char32_t code : {0x00, 0x07, 0x7f, 0x200b, 0xfeff, 0xe000})
    EXPECT_TRUE(is_control(code)) << static_cast<uint32_t>(code);
  for (const char32_t code : {0x09, 0x0a, 0x0d, 0x20, 0x378, 0xac00})
    EXPECT_FALSE(is_control(code)) << static_cast<uint32_t>(code);
}

TEST(Characters, HangulAndKanaAreNoIdeographs) {
  EXPECT_TRUE(is_cjk(0x4e2d));
  EXPECT_TRUE(is_cjk(0xf900));
  EXPECT_FALSE(is_cjk(0xac00));
  EXPECT_FALSE(is_cjk(0x3042));
  EXPECT_FALSE(is_cjk(0x2b820));  // where Unicode's block begins; BERT's begins at U+2B920
}

TEST(Characters, LowercaseMayBeTwo) {
  EXPECT_EQ(lowercase(U'A').first, U'a');
  EXPECT_EQ(lowercase(0x1e9e).first, char32_t{0xdf});
  EXPECT_EQ(lowercase(0x130).first, U'i');
  EXPECT_EQ(lowercase(0x130).second, char32_t{0x307});
  EXPECT_EQ(lowercase(0xac00).second, char32_t{0});
}

TEST(Characters, NumbersAndMarks) {
  EXPECT_TRUE(is_numeric(0x2160));
  EXPECT_TRUE(is_numeric(0xbd));
  EXPECT_FALSE(is_numeric(U'a'));
  EXPECT_TRUE(is_nonspacing_mark(0x301));
  EXPECT_TRUE(is_mark(0x903));
  EXPECT_FALSE(is_nonspacing_mark(0x903));
  EXPECT_EQ(combining_class(0x327), 202);
}

}  // namespace longbow::unicode

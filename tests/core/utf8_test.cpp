#include "longbow/core/utf8.h"

#include <gtest/gtest.h>

namespace longbow {

TEST(Utf8, FindsTheFirstBrokenByte) {
  EXPECT_EQ(find_invalid_utf8("plain, 한글, 😀"), std::string::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xed\x95"), 0u) << "cut short";
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0u) << "overlong";
  EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0u) << "surrogate";
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u) << "past U+10FFFF";
}

TEST(Utf8, AppendsEveryLengthOfCharacter) {
  std::string text;
  for (char32_t code : {U'a', U'é', U'한', U'😀'}) append_utf8(text, code);
  EXPECT_EQ(text, "aé한😀");
}

TEST(Utf8, OneByteOrderMarkInFrontIsDropped) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf"
                                    "a"),
            "a");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf\xef\xbb\xbf"), "\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
  EXPECT_EQ(without_byte_order_mark(""), "");
}

TEST(StringLiteral, EscapesWhatCannotStandInQuotes) {
  EXPECT_EQ(string_literal("a\"b\\c\n\r\t\b\f/한"), R"("a\"b\\c\n\r\t\b\f/한")");
  EXPECT_EQ(string_literal(std::string("\0\x01\x7f", 3)), R"("\u0000\u0001\u007f")");
  EXPECT_EQ(string_literal("\u0085\u2028\ufeff"), R"("\u0085\u2028\ufeff")");
}

TEST(StringLiteral, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(string_literal("a\xff"
                           "b"),
            "\"a\ufffd"
            "b\"");
}

TEST(OneLine, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[31m", 100), "a\\nb\\x09c\\x1b[31m");
  EXPECT_EQ(one_line("한 \u009b2J \u2028", 100), "한 \\u009b2J \\u2028");
  EXPECT_EQ(one_line("a\xff\xc3", 100), "a\\xff\\xc3");
}

TEST(OneLine, CutsBetweenCharacters) {
  EXPECT_EQ(one_line("abcd", 4), "abcd");
  EXPECT_EQ(one_line("abcde", 4), "abcd…");
  EXPECT_EQ(one_line("abc한글", 4), "abc한…");
  EXPECT_EQ(one_line("a\n\n\n", 4), "a\\n\\n…");
}

}  // namespace longbow

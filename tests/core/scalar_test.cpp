#include "longbow/core/scalar.h"

#include <gtest/gtest.h>

namespace longbow {

TEST(Scalar, NumbersAreDecimalAndFinite) {
  for (const char* text : {"0", "12", "-3", "+4", "1.5", ".5", "5.", "1e-3", "1E+9", "007"})
    EXPECT_TRUE(is_number_word(text)) << text;
  for (const char* text :
       {"", "-", ".", "e5", "1e", "1e+", "0x10", "1_000", ".inf", "nan", "1 ", "1.2.3"})
    EXPECT_FALSE(is_number_word(text)) << text;
}

TEST(Scalar, JsonNumbersAreStricter) {
  for (const char* text : {"0", "-0", "12", "1.5", "1e-05", "-1.5E+9"})
    EXPECT_TRUE(is_json_number(text)) << text;
  for (const char* text : {"", "-", "+4", ".5", "5.", "007", "1e", "-.5", "1.e3", "12a"})
    EXPECT_FALSE(is_json_number(text)) << text;
}

TEST(Scalar, OnlyTrueAndFalseAreBooleans) {
  EXPECT_TRUE(is_boolean_word("true") && is_boolean_word("false"));
  for (const char* text : {"yes", "no", "on", "off", "True", "FALSE", ""})
    EXPECT_FALSE(is_boolean_word(text)) << text;
}

TEST(Scalar, NullHasFiveSpellings) {
  for (const char* text : {"", "~", "null", "Null", "NULL"})
    EXPECT_TRUE(is_null_word(text)) << text;
  EXPECT_FALSE(is_null_word("none"));
}

}  // namespace longbow

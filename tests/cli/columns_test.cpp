#include "longbow/cli/columns.h"

#include <gtest/gtest.h>

namespace longbow::cli {
namespace {

TEST(Columns, TheSecondBeginsInOnePlaceAndGoesOnBelowItself) {
  const std::string word(40, 'x');
  EXPECT_EQ(two_columns({{"a", "one"}, {"longer", word + " " + word + " " + word}, {"b", ""}}),
            "a       one\n"
            "longer  " +
                word + " " + word + "\n" + "        " + word +
                "\n"
                "b\n");
  EXPECT_EQ(two_columns({{"a: 1", "one"}, {"é:", "two"}}, "# "), "a: 1  # one\né:    # two\n");
}

}  // namespace
}  // namespace longbow::cli

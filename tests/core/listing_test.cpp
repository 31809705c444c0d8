#include "longbow/core/listing.h"

#include <gtest/gtest.h>

namespace longbow {

TEST(Listed, NamesAFewAndCountsTheRest) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c", "d", "e", "f", "g", "h"}), "a, b, c, d, e, f, g, h");
  EXPECT_EQ(listed({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}),
            "a, b, c, d, e, f, g, h and 2 more");
}

TEST(Shortened, CutsLongTextsOnly) {
  EXPECT_EQ(shortened("1e99"), "1e99");
  EXPECT_EQ(shortened(std::string(61, '1')), "'" + std::string(60, '1') + "…'");
}

}  // namespace longbow

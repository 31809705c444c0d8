#include "longbow/core/columns.h"

#include <gtest/gtest.h>

namespace longbow {
namespace {

TEST(Columns, ColumnsAreThoseOfATerminal) {
  EXPECT_EQ(columns_of("O(N²)"), 5u);
  EXPECT_EQ(columns_of("–"), 1u);
  EXPECT_EQ(columns_of("漢字"), 4u);
  EXPECT_EQ(columns_of("e\u0301"), 1u);
  EXPECT_EQ(padded("√n", 4), "√n  ");
  EXPECT_EQ(padded("longer", 4), "longer");
}

TEST(Columns, ALongNameLosesItsMiddle) {
  EXPECT_EQ(shortened("linformer", 9), "linformer");
  EXPECT_EQ(shortened("linformer rank 128", 10), "linfor…128");
  EXPECT_EQ(shortened("漢字漢字漢字", 7), "漢字…字");
  EXPECT_EQ(shortened("longer", 1), "…");
  for (size_t columns = 1; columns < 20; ++columns)
    EXPECT_LE(columns_of(shortened("e\u0301é漢 a longer name", columns)), columns);
}

TEST(Columns, ABeginningEndsBetweenCharacters) {
  EXPECT_EQ(cut_to("linformer", 3), "lin");
  EXPECT_EQ(cut_to("漢字", 3), "漢");
  EXPECT_EQ(cut_to("e\u0301e", 1), "e\u0301");
  EXPECT_EQ(cut_to("short", 9), "short");
  EXPECT_EQ(columns_of("\xff\xe6\xbc"), 3u) << "bytes that are not UTF-8 count one each";
}

}  // namespace
}  // namespace longbow

#include "longbow/data/readers/tsv.h"

#include <gtest/gtest.h>

#include "tests/data/folder.h"

namespace longbow {
namespace {

std::string error(const std::string& contents) {
  return error_of([&] { parse_table(contents, "t.tsv"); });
}

TEST(Tsv, ReadsLinesThatEndInEitherWay) {
  const std::vector<std::string> tables = {"Source\tTarget\na b\t1\nc\t2\n",
                                           "Source\tTarget\r\na b\t1\r\nc\t2\r\n",
                                           "Source\tTarget\na b\t1\r\nc\t2"};
  for (const auto& contents : tables) {
    auto rows = parse_table(contents, "t.tsv");
    ASSERT_EQ(rows.size(), 2);
    EXPECT_EQ(rows[0].source, "a b");
    EXPECT_EQ(rows[0].target, "1");
    EXPECT_EQ(rows[0].line, 2);
    EXPECT_EQ(rows[1].source, "c");
    EXPECT_EQ(rows[1].target, "2");
    EXPECT_EQ(rows[1].line, 3);
  }
}

TEST(Tsv, SaysWhichLineIsMalformed) {
  EXPECT_EQ(error(""), "t.tsv:1: the header is ''; expected Source<TAB>Target");
  EXPECT_EQ(error("Target\tSource\n"),
            "t.tsv:1: the header is 'Target\\x09Source'; expected Source<TAB>Target");
  EXPECT_EQ(error("Source\tTarget\n"), "t.tsv:2: no samples; the file seems cut off here");
  EXPECT_EQ(error("Source\tTarget\na\t1\n\nb\t2\n"), "t.tsv:3: empty line");
  EXPECT_EQ(error("Source\tTarget\na\nb\t2\n"),
            "t.tsv:2: one column, expected two with a tab between them");
  EXPECT_EQ(
      error("Source\tTarget\na\t1\nb"),
      "t.tsv:3: one column, expected two with a tab between them; the file seems cut off here");
  EXPECT_EQ(error("Source\tTarget\na\t"),
            "t.tsv:2: the second column is empty; the file seems cut off here");
  EXPECT_EQ(error("Source\tTarget\na\t1\t2\n"), "t.tsv:2: more than two columns");
}

TEST(Tsv, QuotesAnyBytesOnOneShortLine) {
  EXPECT_EQ(excerpt("a\nb\xff"), "'a\\x0ab\\xff'");
  EXPECT_EQ(excerpt(std::string(100, 'x')), "'" + std::string(32, 'x') + "…'");
}

}  // namespace
}  // namespace longbow

#include <gtest/gtest.h>

#include <sstream>

#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow {
namespace {

size_t columns(const std::string& line) {
  size_t result = 0;
  for (auto c : line) result += (c & 0xC0) != 0x80;
  return result;
}

TEST(Console, ColumnsAlignAndReasonsFollow) {
  auto text = console_table(sample::arena());
  std::istringstream lines(text);
  std::string heading, rule, line;
  std::getline(lines, heading);
  std::getline(lines, rule);
  EXPECT_EQ(columns(heading), columns(rule));
  for (int i = 0; i < 4; ++i) {
    std::getline(lines, line);
    EXPECT_EQ(columns(line), columns(rule)) << line;
  }
  EXPECT_NE(text.find("\nreformer on listops, seed 0: OOM: needs 9 GiB\n"), std::string::npos);
  EXPECT_NE(text.find("\nlistops: Scored on test; the checkpoint was chosen on valid.\n"),
            std::string::npos);
}

TEST(Console, AReasonStaysOnOneLine) {
  auto record = sample::arena();
  record.cells[3].reason = "first\nsecond";
  EXPECT_NE(console_table(record).find("OOM: first second\n"), std::string::npos);
}

TEST(Console, ABenchPrintsItsTables) {
  auto text = console_table(sample::bench());
  EXPECT_EQ(text.find("Growth\n"), 0u);
  EXPECT_NE(text.find("\nforward: time\n"), std::string::npos);
}

TEST(Console, AnEmptyRecordSaysSo) {
  EXPECT_EQ(console_table({}), "Nothing has been scored yet.\n");
}

}  // namespace
}  // namespace longbow

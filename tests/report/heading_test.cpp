#include "longbow/report/write/heading.h"

#include <gtest/gtest.h>

#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(Heading, AnArenaNamesItsTasksAndItsDate) {
  auto record = sample::arena();
  EXPECT_EQ(heading_line(record), "longbow arena · listops · 3 mechanisms · 2 seeds · 2026-11-15");
  record.cells.push_back({.mechanism = "gla", .task = "text", .status = "pending"});
  EXPECT_EQ(heading_line(record),
            "longbow arena · listops, text · 4 mechanisms · 2 seeds · 1 of 5 cells pending · "
            "2026-11-15");
  for (const auto* task : {"a", "b", "c"}) record.cells.push_back(sample::cell("gla", task, 0, 0));
  EXPECT_NE(heading_line(record).find(" · 5 tasks · "), std::string::npos) << heading_line(record);
}

TEST(Heading, ARunNamesItsMechanismAndItsTask) {
  Record record{.title = "first", .kind = "run", .date = "2026-11-15"};
  record.curves = {{.label = "linear", .task = "recall"}};
  EXPECT_EQ(heading_line(record), "longbow run · linear on recall · 2026-11-15");
  record.cells = {sample::cell("linear", "recall", 3, 0.5)};
  EXPECT_EQ(heading_line(record), "longbow run · linear on recall · 2026-11-15");
}

TEST(Heading, ABenchNamesItsModes) {
  EXPECT_EQ(heading_line(sample::bench()), "longbow bench · forward · 3 mechanisms");
}

TEST(Heading, StandsBelowTheTitleOfPageAndMarkdown) {
  const auto record = sample::arena();
  EXPECT_NE(to_html(record).find("<h1>lra-small</h1>\n<p class=\"byline\"><span>longbow "
                                 "arena</span> · <span>listops</span>"),
            std::string::npos);
  EXPECT_NE(to_html(record).find("<title>lra-small</title>"), std::string::npos);
  EXPECT_TRUE(to_markdown(record).starts_with("# lra-small\n\nlongbow arena · listops"))
      << to_markdown(record);
  EXPECT_EQ(heading_line({}), "longbow");
}

}  // namespace
}  // namespace longbow::reporting

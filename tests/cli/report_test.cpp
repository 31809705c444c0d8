#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

TEST(ReportCommand, MakesAPageOfARun) {
  const Workspace here;
  here.write("run.yaml", kTinyRecall);
  ASSERT_EQ(here.run({"train", "run.yaml", "--out", "run", "--progress", "off", "--set",
                      "train.max_steps=9"})
                .code,
            0);
  const auto outcome = here.run({"report", "run", "--out", "page"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "page/report.html\n");
  const auto page = here.read("page/report.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  for (const auto* outside : {"src=\"http", "href=\"http", "@import"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_NE(here.read("page/table.md").find("| linear"), std::string::npos)
      << here.read("page/table.md");
  EXPECT_TRUE(here.has("page/table.csv"));
}

TEST(ReportCommand, AFolderThatIsNoneIsOneLine) {
  const Workspace here;
  const auto outcome = here.run({"report", "nowhere"});
  EXPECT_EQ(outcome.code, 2);
  ASSERT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("longbow: nowhere")) << outcome.err;
  EXPECT_FALSE(here.has("nowhere"));
}

}  // namespace
}  // namespace longbow::cli

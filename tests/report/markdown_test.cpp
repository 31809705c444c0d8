#include <gtest/gtest.h>

#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Markdown, HoldsTheTableOfScores) {
  auto text = to_markdown(sample::arena());
  EXPECT_TRUE(holds(text, "# lra-small\n"));
  EXPECT_TRUE(holds(text, "| commit | 3f2a91c |"));
  EXPECT_TRUE(holds(text,
                    "| mechanism | listops accuracy % | tokens/s | peak memory | parameters "
                    "|\n|---|---:|---:|---:|---:|\n"));
  EXPECT_TRUE(holds(text, "| softmax | **52.00 ± 2.83** |")) << text;
  EXPECT_TRUE(holds(text, "| reformer | listops | 0 | OOM | needs 9 GiB |"));
  EXPECT_TRUE(holds(text, "Scored on test; the checkpoint was chosen on valid."));
}

TEST(Markdown, EscapesWhatWouldBreakATable) {
  auto record = sample::arena();
  record.cells[3].reason = "a|b\n<script>";
  EXPECT_TRUE(holds(to_markdown(record), "a\\|b &lt;script>"));
}

TEST(Markdown, HoldsTheBench) {
  auto text = to_markdown(sample::bench());
  EXPECT_TRUE(holds(text, "## Growth"));
  EXPECT_TRUE(holds(text, "| linear | forward | 1.00 | 1.00 | 1000 | 4.10× at 4096 |"));
  EXPECT_TRUE(holds(text, "## forward: error against float64"));
}

TEST(Markdown, AnEmptyRecordSaysSo) {
  EXPECT_EQ(to_markdown({}), "# longbow\n\nlongbow\n\nNothing has been scored yet.\n");
}

}  // namespace
}  // namespace longbow

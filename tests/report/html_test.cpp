#include <gtest/gtest.h>

#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow {
namespace {

TEST(Html, IsWellFormedAndSelfContained) {
  for (auto& record : {sample::arena(), sample::bench(), Record{}}) {
    auto html = to_html(record);
    EXPECT_EQ(sample::unbalanced(html), "");
    EXPECT_EQ(html.find("src="), std::string::npos);
    EXPECT_EQ(html.find("href="), std::string::npos);
    EXPECT_EQ(html.find("@import"), std::string::npos);
    EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
    EXPECT_NE(html.find("@media print"), std::string::npos);
  }
}

TEST(Html, TheRunCardComesBeforeTheScores) {
  auto html = to_html(sample::arena());
  EXPECT_NE(html.find("<dt>command</dt><dd>longbow arena lra.yaml</dd>"), std::string::npos);
  EXPECT_LT(html.find("<dt>command</dt>"), html.find(">Scores<"));
}

TEST(Html, SaysWhichSplitScoredAndWhatIsMissing) {
  auto html = to_html(sample::arena());
  EXPECT_NE(html.find("Scored on test; the checkpoint was chosen on valid."), std::string::npos);
  EXPECT_NE(html.find("Not drawn: reformer (OOM)."), std::string::npos);
  EXPECT_NE(html.find("needs 9 GiB</td>"), std::string::npos);
}

TEST(Html, CellsWithoutAScoreLookDifferentAndAreExplained) {
  auto record = sample::arena();
  for (const auto* status : {"FAIL", "n.a.", "pending"})
    record.cells.push_back(sample::failure(status, "listops", status, "why"));
  auto html = to_html(record);
  for (const auto* state :
       {R"(<span class="state oom">OOM</span> ran out of memory)",
        R"(<span class="state failed">FAIL</span> failed, for the reason below)",
        R"(<span class="state refused">n.a.</span> the mechanism cannot do the task)",
        R"(<span class="state pending">pending</span> not run yet)"})
    EXPECT_NE(html.find(state), std::string::npos) << state;
  for (const auto* sign :
       {".pending::before", ".refused::before", ".failed::before", ".oom::before"})
    EXPECT_NE(html.find(sign), std::string::npos) << sign;
}

TEST(Html, ANarrowScreenHasFiguresAndTablesOfItsOwn) {
  auto html = to_html(sample::arena());
  auto wide = sample::count(html, "<svg class=\"wide\"");
  EXPECT_GT(wide, 0u);
  EXPECT_EQ(sample::count(html, "<svg class=\"narrow\" viewBox=\"0 0 360 "), wide);
  for (const auto* rule : {"svg.narrow { display: none }", "@media screen and (max-width: 720px)",
                           "svg.wide { display: none } svg.narrow { display: block;",
                           "th:first-child, td:first-child { position: sticky; left: 0;"})
    EXPECT_NE(html.find(rule), std::string::npos) << rule;
}

TEST(Html, NoTextOfARecordBecomesMarkup) {
  const std::string attack = "<script>alert('x')</script>\"><img onerror=1>";
  Record record = sample::arena();
  record.title = record.config = attack;
  record.context.emplace_back(attack, attack);
  record.notes = {attack};
  for (auto& cell : record.cells) cell.mechanism = cell.task = cell.reason = cell.split = attack;
  record.cells[3].status = attack;
  for (auto& curve : record.curves) curve.label = curve.task = attack;
  auto bench = sample::bench();
  for (auto& row : bench.benchmarks) row.mode = row.mechanism = row.reason = attack;
  record.benchmarks = bench.benchmarks;
  auto html = to_html(record);
  EXPECT_EQ(sample::count(html, "<script"), 1u);
  EXPECT_EQ(sample::count(html, "<img"), 0u);
  EXPECT_EQ(sample::unbalanced(html), "");
}

TEST(Html, AnEmptyRecordSaysSo) {
  EXPECT_NE(to_html({}).find("Nothing has been scored yet."), std::string::npos);
}

TEST(Html, ARunWithoutAScoreShowsItsCurves) {
  auto record = sample::arena();
  record.cells.clear();
  record.config = "task: listops\n";
  auto html = to_html(record);
  EXPECT_EQ(sample::count(html, "<svg class=\"wide\""), 1u);
  EXPECT_EQ(sample::count(html, "<svg class=\"narrow\""), 1u);
  EXPECT_NE(html.find("<pre>task: listops"), std::string::npos);
}

}  // namespace
}  // namespace longbow

#include "longbow/report/table/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include "longbow/report/table/grid.h"

#include "longbow/core/error.h"
#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(Statistic, IsTheMeanAndTheDeviationOfTheSample) {
  auto three = *statistic({1, 2, 6});
  EXPECT_DOUBLE_EQ(three.mean, 3);
  EXPECT_DOUBLE_EQ(three.deviation, std::sqrt(7.0));
  EXPECT_EQ(three.count, 3);
  EXPECT_EQ(statistic({5})->deviation, 0);
  EXPECT_FALSE(statistic({}));
}

TEST(Table, SeveralSeedsGiveADeviationAndOneDoesNot) {
  auto table = summarize(sample::arena());
  EXPECT_EQ(table.at("softmax", "listops").text(), "52.00 ± 2.83");
  EXPECT_EQ(table.at("linformer", "listops").text(), "42.75");
  EXPECT_EQ(table.at("majority", "listops").text(), "17.00");
}

TEST(Table, AFailureKeepsItsStatusAndReason) {
  auto table = summarize(sample::arena());
  EXPECT_EQ(table.at("reformer", "listops").text(), "OOM");
  ASSERT_EQ(table.failures.size(), 1u);
  EXPECT_EQ(table.failures[0].reason, "needs 9 GiB");
}

TEST(Table, AFailedSeedIsCounted) {
  auto record = sample::arena();
  record.cells.push_back(sample::failure("linformer", "listops", "FAIL", ""));
  auto table = summarize(record);
  EXPECT_EQ(table.at("linformer", "listops").text(), "42.75 (1/2 seeds)");
  EXPECT_EQ(table.failures.back().reason, "no reason was recorded");
}

TEST(Table, AMetricIsKnownWithoutAScore) {
  Record record;
  record.cells = {sample::failure("softmax", "markov", "FAIL", "perplexity is not finite")};
  EXPECT_EQ(summarize(record).measure("markov").heading(), "score");
  record.cells[0].metric = "perplexity";
  EXPECT_EQ(summarize(record).measure("markov").heading(), "perplexity");
  EXPECT_FALSE(summarize(record).measure("markov").larger_is_better);
}

TEST(Table, APendingSeedIsCountedAndHidesNoFailure) {
  auto record = sample::arena();
  record.cells.push_back(sample::failure("linformer", "listops", "pending", ""));
  record.cells.back().seed = 1;
  record.cells.push_back(sample::failure("reformer", "listops", "pending", ""));
  record.cells.back().seed = 1;
  auto table = summarize(record);
  EXPECT_EQ(table.at("linformer", "listops").text(), "42.75 (1/2 seeds)");
  EXPECT_EQ(table.at("reformer", "listops").text(), "OOM");
  EXPECT_EQ(table.failures.size(), 1u);
}

TEST(Table, AFinishedCellWithoutAScoreSaysSo) {
  Record record;
  record.cells = {sample::failure("softmax", "listops", "ok", "")};
  auto table = summarize(record);
  EXPECT_EQ(table.at("softmax", "listops").text(), "no score");
  EXPECT_EQ(table.failures.size(), 1u);
}

TEST(Table, BaselinesComeLastAndUntriedCellsWereNotRun) {
  Record record;
  record.cells = {{.mechanism = "majority",
                   .task = "a",
                   .metric = "accuracy",
                   .score = 0.1,
                   .status = "baseline"},
                  sample::cell("softmax", "a", 0, 0.5),
                  sample::cell("linear", "b", 0, 0.5)};
  auto table = summarize(record);
  EXPECT_EQ(table.mechanisms, (std::vector<std::string>{"softmax", "linear", "majority"}));
  EXPECT_EQ(table.at("softmax", "b").text(), "not run");
  EXPECT_TRUE(table.failures.empty());
  EXPECT_TRUE(table.is_for_comparison("majority"));
  EXPECT_FALSE(table.is_for_comparison("linear"));
  EXPECT_EQ(table.citation("majority"), "");
}

TEST(Table, PublishedRowsStandBetweenMechanismsAndBaselines) {
  Record record;
  record.cells = {{.mechanism = "majority",
                   .task = "a",
                   .metric = "accuracy",
                   .score = 0.1,
                   .status = "baseline"},
                  {.mechanism = "softmax, published",
                   .task = "a",
                   .metric = "accuracy",
                   .score = 0.9,
                   .status = "published",
                   .reason = "A paper, table 2"},
                  sample::cell("softmax", "a", 0, 0.5),
                  sample::cell("linear", "a", 0, 0.4)};
  auto table = summarize(record);
  EXPECT_EQ(table.mechanisms,
            (std::vector<std::string>{"softmax", "linear", "softmax, published", "majority"}));
  EXPECT_TRUE(table.is_for_comparison("softmax, published"));
  EXPECT_EQ(table.citation("softmax, published"), "A paper, table 2");
  EXPECT_EQ(table.at("softmax, published", "a").text(), "90.00");
  EXPECT_TRUE(table.failures.empty());
  const auto grid = overview_grid(table);
  EXPECT_EQ(grid.rows[2][0].tone, Tone::muted);
  EXPECT_EQ(grid.rows[2][0].hint, "published: A paper, table 2");
  EXPECT_EQ(grid.rows[0][1].tone, Tone::best) << "what others measured is not in the contest";
  EXPECT_NE(grid.note.find("Published by others, not measured here: A paper, table 2."),
            std::string::npos)
      << grid.note;
}

TEST(Table, TwoMetricsForOneTaskAreRefused) {
  auto record = sample::arena();
  record.cells[1].metric = "loss";
  try {
    summarize(record);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "task 'listops' is scored by 'accuracy' and by 'loss'; one table needs one metric "
                 "per task");
  }
}

}  // namespace
}  // namespace longbow::reporting

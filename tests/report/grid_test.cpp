#include "longbow/report/table/grid.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

const std::vector<GridCell>& row(const Grid& grid, const std::string& mechanism) {
  for (auto& cells : grid.rows)
    if (cells[0].text == mechanism) return cells;
  throw std::out_of_range(mechanism);
}

Record two_tasks() {
  auto record = sample::arena();
  auto fast = sample::cell("softmax", "text", 0, 0.7);
  fast.tokens_per_second = 80000;
  record.cells.push_back(fast);
  return record;
}

TEST(Grid, TheOverviewMarksTheBestScoreButNeverABaseline) {
  auto record = sample::arena();
  record.cells.back().score = 0.99;
  auto grid = overview_grid(summarize(record));
  EXPECT_EQ(grid.columns[1], "listops accuracy %");
  EXPECT_EQ(row(grid, "softmax")[1].tone, Tone::best);
  EXPECT_EQ(row(grid, "linformer")[1].tone, Tone::plain);
  EXPECT_EQ(row(grid, "majority")[1].tone, Tone::plain);
}

TEST(Grid, AFailureSaysWhy) {
  auto cell = row(overview_grid(summarize(sample::arena())), "reformer")[1];
  EXPECT_EQ(cell.text, "OOM");
  EXPECT_EQ(cell.tone, Tone::out_of_memory);
  EXPECT_EQ(cell.hint, "seed 0: needs 9 GiB");
}

TEST(Grid, ValuesOverTasksNeedEveryTask) {
  auto grid = overview_grid(summarize(two_tasks()));
  EXPECT_EQ(grid.columns[3], "average %");
  EXPECT_NEAR(*row(grid, "softmax")[3].value, 61, 1e-9);
  EXPECT_NEAR(*row(grid, "softmax")[4].value, 40000, 1e-6);
  EXPECT_EQ(row(grid, "linformer")[3].text, "–");
  EXPECT_EQ(row(grid, "linformer")[4].text, "–");
  EXPECT_EQ(row(grid, "linformer")[6].value, 2.5e6);
}

TEST(Grid, ATaskListsOnlyWhatWasTriedOnIt) {
  auto table = summarize(two_tasks());
  EXPECT_EQ(task_grid(table, "text").rows.size(), 1u);
  EXPECT_EQ(task_grid(table, "listops").rows.size(), 4u);
}

TEST(Grid, SaysWhichSplitChoseAndWhichScored) {
  auto record = sample::arena();
  auto sentence = [&] { return scoring_sentence(summarize(record), "listops"); };
  EXPECT_EQ(sentence(), "Scored on test; the checkpoint was chosen on valid.");
  for (auto& cell : record.cells) cell.split = "valid";
  EXPECT_EQ(sentence(),
            "Scored on valid, which also chose the checkpoint: the scores are optimistic.");
  for (auto& cell : record.cells) cell.chosen_by = "";
  EXPECT_EQ(sentence(), "Scored on valid.");
  for (auto& cell : record.cells) cell.split = "";
  EXPECT_EQ(sentence(), "The record does not say which split was scored.");
}

TEST(Grid, ALossIsBestWhenLow) {
  auto record = sample::arena();
  for (auto& cell : record.cells) cell.metric = "loss";
  EXPECT_EQ(row(overview_grid(summarize(record)), "linformer")[1].tone, Tone::best);
}

// Shares in percent and best when large, perplexities as they are and best when small.
TEST(Grid, TasksOfDifferentMetricsStandInOneTable) {
  auto record = sample::arena();
  for (auto [mechanism, seed, score] :
       {std::tuple("softmax", 0, 3.5), std::tuple("softmax", 1, 4.5),
        std::tuple("linformer", 0, 9.25)}) {
    record.cells.push_back(sample::cell(mechanism, "markov", seed, score));
    record.cells.back().metric = "perplexity";
  }
  auto grid = overview_grid(summarize(record));
  EXPECT_EQ(grid.columns,
            (std::vector<std::string>{"mechanism", "listops accuracy %", "markov perplexity",
                                      "tokens/s", "peak memory", "parameters"}));
  EXPECT_EQ(row(grid, "softmax")[1].text, "52.00 ± 2.83");
  EXPECT_EQ(row(grid, "softmax")[2].text, "4.000 ± 0.707");
  EXPECT_EQ(row(grid, "linformer")[2].text, "9.250");
  EXPECT_EQ(row(grid, "softmax")[2].tone, Tone::best);
  EXPECT_EQ(row(grid, "softmax")[1].tone, Tone::best);
  EXPECT_EQ(row(grid, "majority")[2].text, "–");
  EXPECT_TRUE(grid.note.starts_with("Larger is better for listops; smaller is better for markov."))
      << grid.note;
}

TEST(Grid, SaysWhereAMechanismStands) {
  auto record = sample::arena();
  for (auto& cell : record.cells)
    if (cell.mechanism == "softmax") cell.sites = {"encoder", "decoder", "cross"};
  record.cells[2].sites = {"encoder", "decoder"};
  auto table = summarize(record);
  auto grid = task_grid(table, "listops");
  EXPECT_EQ(grid.columns.back(), "used in");
  EXPECT_EQ(row(grid, "softmax").back().text, "encoder, decoder, cross");
  EXPECT_EQ(row(grid, "majority").back().text, "");
  EXPECT_EQ(
      scoring_sentence(table, "listops"),
      "Scored on test; the checkpoint was chosen on valid. Used where it can be: linformer in "
      "encoder, decoder only; other places are as the config says.");
}

TEST(Grid, WhatAMechanismCannotDoIsNoFailure) {
  auto record = sample::arena();
  record.cells.push_back(sample::failure("fnet", "listops", "n.a.", "fnet is not causal"));
  auto cell = row(overview_grid(summarize(record)), "fnet")[1];
  EXPECT_EQ(cell.text, "n.a.");
  EXPECT_EQ(cell.tone, Tone::refused);
  EXPECT_EQ(cell.hint, "seed 0: fnet is not causal");
}

TEST(Grid, DeviationsAreExplainedWhereThereAreSome) {
  auto record = sample::arena();
  EXPECT_EQ(overview_grid(summarize(record)).note,
            "Mean ± standard deviation over seeds where there are several.");
  record.cells = {sample::cell("softmax", "listops", 0, 0.5)};
  EXPECT_EQ(overview_grid(summarize(record)).note, "");
}

TEST(Grid, SeedsThatFailedAlikeAreOneRow) {
  auto record = sample::arena();
  for (int64_t seed : {1, 2}) {
    record.cells.push_back(
        sample::failure("reformer", "listops", "OOM", seed == 1 ? "needs 9 GiB" : "needs 10 GiB"));
    record.cells.back().seed = seed;
  }
  auto grid = failure_grid(summarize(record));
  ASSERT_EQ(grid.rows.size(), 2u);
  EXPECT_EQ(grid.rows[0][2].text, "0, 1");
  EXPECT_EQ(grid.rows[1][2].text, "2");
}

// Of three mechanisms on two tasks: one cell of every kind.
TEST(Grid, CellsWithoutAScoreDifferInWordAndTone) {
  Record record;
  record.cells = {sample::cell("softmax", "listops", 0, 0.5),
                  sample::failure("softmax", "text", "FAIL", "loss is nan"),
                  sample::failure("linear", "listops", "OOM", "needs 9 GiB"),
                  sample::failure("linear", "text", "pending", ""),
                  sample::failure("fnet", "listops", "n.a.", "fnet is not causal")};
  auto table = summarize(record);
  auto grid = overview_grid(table);
  const auto cell = [&](const char* mechanism, size_t column) {
    auto& found = row(grid, mechanism)[column];
    return std::pair(found.text, found.tone);
  };
  EXPECT_EQ(cell("softmax", 2), std::pair(std::string("FAIL"), Tone::failed));
  EXPECT_EQ(cell("linear", 1), std::pair(std::string("OOM"), Tone::out_of_memory));
  EXPECT_EQ(cell("linear", 2), std::pair(std::string("pending"), Tone::pending));
  EXPECT_EQ(cell("fnet", 1), std::pair(std::string("n.a."), Tone::refused));
  EXPECT_EQ(cell("fnet", 2), std::pair(std::string("not run"), Tone::pending));
  EXPECT_EQ(state_sentence(grid),
            "pending: not run yet; n.a.: the mechanism cannot do the task; FAIL: failed, for the "
            "reason below; OOM: ran out of memory.");
  EXPECT_EQ(table.failures.size(), 3u) << "what is pending has not failed";
  EXPECT_EQ(state_sentence(overview_grid(summarize({}))), "");
}

}  // namespace
}  // namespace longbow::reporting

#include "longbow/report/table/bench_grid.h"

#include <gtest/gtest.h>

#include "tests/report/sample.h"

namespace longbow::reporting {
namespace {

TEST(BenchGrid, TimesStandByLength) {
  auto grid = time_grid(sample::bench(), "forward");
  EXPECT_EQ(grid.columns,
            (std::vector<std::string>{"mechanism", "N = 256", "N = 1024", "N = 4096"}));
  EXPECT_EQ(grid.rows[0][0].text, "softmax");
  EXPECT_EQ(grid.rows[0][3].text, "16.8 ms");
  EXPECT_EQ(grid.rows[0][3].hint, "p20 15.1 ms, p80 18.5 ms");
  EXPECT_EQ(grid.rows[0][1].tone, Tone::best);
  EXPECT_EQ(grid.rows[1][3].tone, Tone::best);
}

TEST(BenchGrid, WhatWasNotMeasuredSaysSo) {
  auto grid = time_grid(sample::bench(), "forward");
  EXPECT_EQ(grid.rows[2][1].text, "not run");
  EXPECT_EQ(grid.rows[2][1].tone, Tone::pending);
  EXPECT_EQ(grid.rows[2][3].text, "OOM");
  EXPECT_EQ(grid.rows[2][3].tone, Tone::out_of_memory);
  EXPECT_EQ(grid.rows[2][3].hint, "needs 16 GiB");
  auto failures = bench_failure_grid(sample::bench());
  ASSERT_EQ(failures.rows.size(), 1u);
  EXPECT_EQ(failures.rows[0][4].text, "needs 16 GiB");
  auto record = sample::bench();
  record.benchmarks.push_back(record.benchmarks.back());
  record.benchmarks.back().length = 8192;
  failures = bench_failure_grid(record);
  ASSERT_EQ(failures.rows.size(), 1u);
  EXPECT_EQ(failures.rows[0][2].text, "4096, 8192");
}

TEST(BenchGrid, GrowthShowsExponentsCrossoverAndSpeedAtTheLongestSharedLength) {
  auto grid = growth_grid(sample::bench());
  EXPECT_EQ(grid.rows[0][2].text, "2.00");
  EXPECT_EQ(grid.rows[0][4].text, "–");
  EXPECT_EQ(grid.rows[1][4].text, "1000");
  EXPECT_EQ(grid.rows[1][5].text, "4.10× at 4096");
  auto record = sample::bench();
  record.growth[1].crossover_length.reset();
  EXPECT_EQ(growth_grid(record).rows[1][4].text, "none in range");
}

// As `bench --growth` writes it: beside promises, and without softmax.
TEST(BenchGrid, GrowthShowsWhatIsPromisedWhereTheFileSaysSo) {
  auto record = sample::bench();
  std::erase_if(record.benchmarks, [](const auto& row) { return row.mechanism == "softmax"; });
  record.growth = {{.mechanism = "linear",
                    .mode = "forward",
                    .time_exponent = 0.48,
                    .memory_exponent = 1,
                    .cpu_exponent = 0.35,
                    .promised_time = 1,
                    .promised_memory = 1.5}};
  auto grid = growth_grid(record);
  EXPECT_EQ(grid.columns,
            (std::vector<std::string>{"mechanism", "mode", "time exponent",
                                      "processor time exponent", "promised time exponent",
                                      "memory exponent", "promised memory exponent",
                                      "crossover length", "speed against softmax"}));
  std::vector<std::string> texts;
  for (const auto& cell : grid.rows.at(0)) texts.push_back(cell.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"linear", "forward", "0.48", "0.35", "1.00", "1.00",
                                             "1.50", "–", "–"}));
  EXPECT_EQ(growth_grid(sample::bench()).columns.size(), 6u) << "nothing was promised";
}

TEST(BenchGrid, OnlyWhatWasMeasuredHasATable) {
  auto record = sample::bench();
  for (auto& row : record.benchmarks) row.error.reset();
  auto grids = mode_grids(record, "forward");
  ASSERT_EQ(grids.size(), 2u);
  EXPECT_EQ(grids[1].title, "forward: peak memory");
  EXPECT_TRUE(bench_grids(Record{}).empty());
}

}  // namespace
}  // namespace longbow::reporting

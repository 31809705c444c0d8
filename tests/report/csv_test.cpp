#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "longbow/report/write/report.h"
#include "tests/report/sample.h"

namespace longbow {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> rows(const std::string& csv) {
  std::istringstream lines(csv);
  std::vector<std::string> names;
  std::vector<Row> result;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line + ",");
    std::vector<std::string> values;
    for (std::string value; std::getline(fields, value, ',');) values.push_back(value);
    if (names.empty()) {
      names = values;
      continue;
    }
    EXPECT_EQ(values.size(), names.size()) << line;
    auto& row = result.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = values.at(i);
  }
  return result;
}

TEST(Csv, HoldsTheSameNumbersAsThePageAndTheMarkdown) {
  auto record = sample::arena();
  auto html = to_html(record), markdown = to_markdown(record), console = console_table(record);
  auto found = rows(to_csv(record));
  ASSERT_EQ(found.size(), 4u);
  for (auto& row : found) {
    if (row["score"].empty()) continue;
    auto text = fmt::format("{:.2f}", std::stod(row["score"]));
    if (!row["deviation"].empty()) text += fmt::format(" ± {:.2f}", std::stod(row["deviation"]));
    for (auto& output : {html, markdown, console})
      EXPECT_NE(output.find(text), std::string::npos) << text;
    EXPECT_NE(html.find("data-value=\"" + row["score"] + "\""), std::string::npos) << row["score"];
  }
}

TEST(Csv, AFailureHasNoScoreButAReason) {
  auto row = rows(to_csv(sample::arena())).at(2);
  EXPECT_EQ(row["mechanism"], "reformer");
  EXPECT_EQ(row["score"], "");
  EXPECT_EQ(row["status"], "OOM");
  EXPECT_EQ(row["reason"], "needs 9 GiB");
  EXPECT_EQ(row["seeds_scored"], "0");
}

TEST(Csv, QuotesWhatHoldsCommasQuotesAndLines) {
  auto record = sample::arena();
  record.cells[3].reason = "a, \"b\"\nc";
  EXPECT_NE(to_csv(record).find(",\"a, \"\"b\"\"\nc\"\n"), std::string::npos);
}

TEST(Csv, ABenchIsOneRowPerBenchmarkWithItsGrowth) {
  auto found = rows(to_csv(sample::bench()));
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found[1]["mechanism"], "linear");
  EXPECT_EQ(found[1]["length"], "256");
  EXPECT_EQ(found[1]["crossover_length"], "1000");
  EXPECT_EQ(found[1]["cpu_exponent"], "") << "the file does not say it";
  EXPECT_DOUBLE_EQ(std::stod(found[0]["seconds"]), 1e-9 * 256 * 256);
  EXPECT_EQ(found[6]["status"], "OOM");
}

TEST(Csv, ABenchHasThePromisesOfItsFile) {
  auto record = sample::bench();
  record.growth[1].cpu_exponent = 0.35;
  record.growth[1].promised_time = 1;
  record.growth[1].promised_memory = 1.5;
  auto row = rows(to_csv(record)).at(1);
  EXPECT_EQ(row["cpu_exponent"], "0.35");
  EXPECT_EQ(row["promised_time_exponent"], "1");
  EXPECT_EQ(row["promised_memory_exponent"], "1.5");
}

TEST(Csv, SaysWhichWayIsBetterAndWhereAMechanismStands) {
  auto record = sample::arena();
  for (auto& cell : record.cells) cell.metric = "perplexity";
  record.cells[2].sites = {"encoder", "cross"};
  auto row = rows(to_csv(record)).at(1);
  EXPECT_EQ(row["better"], "smaller");
  EXPECT_EQ(row["unit"], "");
  EXPECT_EQ(row["score"], "0.4275");
  EXPECT_EQ(row["sites"], "encoder cross");
  EXPECT_EQ(rows(to_csv(sample::arena())).at(1)["better"], "larger");
}

TEST(Csv, ABaselineHasRowsOnlyForItsOwnTasks) {
  auto record = sample::arena();
  record.cells.push_back(sample::cell("softmax", "text", 0, 0.7));
  auto found = rows(to_csv(record));
  EXPECT_EQ(found.size(), 7u) << "three mechanisms on two tasks, one baseline on one";
}

TEST(Csv, AnEmptyRecordIsAHeading) {
  EXPECT_EQ(sample::count(to_csv({}), "\n"), 1u);
}

}  // namespace
}  // namespace longbow

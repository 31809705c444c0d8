#include <gtest/gtest.h>

#include "longbow/report/table/number.h"
#include "longbow/train/run/evaluate.h"
#include "longbow/train/run/run_task.h"
#include "tests/cli/objectives.h"
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

TEST(ReportCommand, ReplacesNothingUnlessTold) {
  const Workspace here;
  here.write("bench.json", R"({"context": {}, "benchmarks": [], "growth": []})");
  here.write("table.csv", "mine");
  const auto beside = here.run({"report", "bench.json"});
  EXPECT_EQ(beside.code, 2);
  EXPECT_EQ(beside.err,
            "longbow: table.csv: is there already; give another folder with --out, or --force to "
            "replace it\n");
  EXPECT_EQ(here.read("table.csv"), "mine");
  EXPECT_FALSE(here.has("report.html")) << "all of it or nothing";
  ASSERT_EQ(here.run({"report", "bench.json", "--out", "page"}).code, 0);
  EXPECT_EQ(here.run({"report", "bench.json", "--out", "page"}).code, 2);
  EXPECT_EQ(here.run({"report", "bench.json", "--out", "page", "--force"}).code, 0);
  ASSERT_EQ(here.run({"report", "bench.json", "--force"}).code, 0);
  EXPECT_NE(here.read("table.csv"), "mine");
}

class ReportOf : public testing::TestWithParam<TinyObjective> {};

// A name says how a metric is shown; the task says what is better. They must not disagree.
TEST_P(ReportOf, ReadsMetricsAsTheTaskMeansThem) {
  const auto config =
      read_run_config(parse_yaml("{" + GetParam().config + ", train: {bucket: 4}}", "run.yaml"));
  const auto task = make_task(config, at::kCPU);
  const auto found = evaluate(*task, *task->splits().test, {.batch_size = 8, .bucket = 4});
  EXPECT_EQ(found.metrics.front().name, GetParam().metric);
  for (const auto& [name, value, larger_is_better] : found.metrics) {
    EXPECT_EQ(reporting::measure_of(name).larger_is_better, larger_is_better) << name;
    if (reporting::measure_of(name).percent) {
      EXPECT_TRUE(value >= 0 && value <= 1) << name << " " << value;
    }
  }
}

TEST_P(ReportOf, DrawsWhatTheRunRecorded) {
  const Workspace here;
  here.write("run.yaml", "{" + GetParam().config +
                             ", train: {max_steps: 3, batch_size: 8, bucket: 4, log_every: 1}}");
  const auto training = here.run({"train", "run.yaml", "--out", "run", "--progress", "off"});
  ASSERT_EQ(training.code, 0) << training.err;
  const auto measure = reporting::measure_of(GetParam().metric);
  EXPECT_NE(training.out.find(": " + measure.name + " "), std::string::npos) << training.out;
  EXPECT_EQ(training.out.find(" % (test") != std::string::npos, GetParam().percent);
  ASSERT_EQ(here.run({"report", "run"}).code, 0);
  ASSERT_EQ(here.run({"report", "run"}).code, 0) << "the report of a run is renewed";
  const auto page = here.read("run/report.html");
  auto label = measure.heading();
  std::replace(label.begin(), label.end(), '_', ' ');
  for (const auto& axis :
       {std::string("loss"), label, std::string("learning rate"), std::string("gradient norm")})
    EXPECT_NE(page.find("class=\"axis-label\">" + axis + "<"), std::string::npos) << axis;
  EXPECT_EQ(page.find("<h2>recall: pretraining</h2>") != std::string::npos,
            GetParam().name == "pretrained");
  const auto csv = here.read("run/table.csv");
  EXPECT_NE(csv.find("," + measure.name + "," + measure.unit() + "," +
                     (GetParam().larger_is_better ? "larger" : "smaller") + ","),
            std::string::npos)
      << csv;
}

INSTANTIATE_TEST_SUITE_P(Objectives, ReportOf, testing::ValuesIn(tiny_objectives()),
                         [](const auto& info) { return info.param.name; });

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

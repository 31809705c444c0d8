#include <gtest/gtest.h>

#include "tests/cli/arenas.h"

namespace longbow::cli {
namespace {

TEST(ArenaRecord, HasPublishedScoresWithTheirCitation) {
  const Workspace here;
  here.write("arena.yaml",
             kArena +
                 "published:\n"
                 "  - {task: recall, metric: accuracy, cite: 'A. Author, 2020', scores: {linear: "
                 "0.5}}\n"
                 "  - {task: recall, metric: macro_f1, cite: 'Not shown', scores: {fnet: 0.5}}\n");
  const auto outcome = here.run(arena());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  auto rows = cells(here);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows.at("linear, published").at("status"), "published");
  EXPECT_EQ(rows.at("linear, published").at("reason"), "A. Author, 2020");
  for (const auto* file : {"out/table.md", "out/table.csv", "out/report.html"})
    EXPECT_NE(here.read(file).find("A. Author, 2020"), std::string::npos) << file;
  EXPECT_NE(outcome.out.find("linear, published"), std::string::npos) << outcome.out;
}

// Until then it is not known whether they are of the metric of the task's baselines.
TEST(ArenaRecord, HasPublishedScoresOnceACellOfTheirTaskHasOne) {
  const Workspace here;
  here.write(
      "arena.yaml",
      replaced(kArena, "mechanisms:",
               "  second:\n    task: recall\n    model: {metric: macro_f1}\n    data:\n"
               "      recall: {train: 64, valid: 16, test: 16, keys: 8, values: 4, pairs: 4, "
               "queries: 4}\nmechanisms:") +
          "published:\n  - {task: second, metric: macro_f1, cite: A, scores: {linear: 0.5}}\n");
  for (int call = 0; call < 2; ++call) {
    const auto outcome = here.run(arena({"--mechanisms", "linear"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(cells(here).at("linear, published").at("metric"), "macro_f1");
  }
}

TEST(ArenaRecord, ATaskWhoseFirstCellHasNoScoreIsNotInTheWayOfTheOthers) {
  const Workspace here;
  const auto text =
      replaced(kArena, "  - linear\n  - {name: local, window: 4, label: local 4}\n",
               "  - fnet\n  - linear\npublished:\n  - {task: recall, metric: macro_f1, cite: A, "
               "scores: {linear: 0.5}}\n");
  here.write("arena.yaml", replaced(text, "layers: 1}", "layers: 1, causal: true}"));
  for (int call = 0; call < 2; ++call) {
    const auto outcome = here.run(arena());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(cells(here).at("fnet").at("status"), "n.a.");
    EXPECT_EQ(cells(here).at("linear").at("status"), "ok");
    EXPECT_FALSE(cells(here).contains("linear, published")) << "the cells have another metric";
  }
}

TEST(ArenaRecord, APublishedShareIsAFractionOfOne) {
  const Workspace here;
  here.write("arena.yaml", kArena +
                               "published:\n  - {task: recall, metric: accuracy, cite: A, "
                               "scores: {linear: 45.1}}\n");
  const auto outcome = here.run(arena());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "longbow: arena.yaml:13: accuracy of 'linear, published' is 45.1, outside 0..1; write "
            "it as a fraction\n");
  EXPECT_FALSE(here.has("out")) << "no cell has run";
}

}  // namespace
}  // namespace longbow::cli

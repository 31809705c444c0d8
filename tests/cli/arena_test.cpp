#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

const std::string kArena = R"(name: tiny
common:
  model: {width: 16, heads: 2, layers: 1}
  train: {max_steps: 12, batch_size: 8, bucket: 4, log_every: 4}
tasks:
  recall:
    data:
      recall: {train: 64, valid: 16, test: 16, keys: 8, values: 4, pairs: 4, queries: 4}
mechanisms:
  - linear
  - {name: local, window: 4, label: local 4}
)";

Arguments arena(const Arguments& more = {}) {
  Arguments words = {"arena", "arena.yaml", "--out", "out", "--progress", "off"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::map<std::string, json> cells(const Workspace& here) {
  std::map<std::string, json> found;
  for (const auto& row : json::parse(here.read("out/results.json")))
    found[row.at("mechanism")] = row;
  return found;
}

TEST(ArenaCommand, WritesEveryCellBesideTheBaselines) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  const auto outcome = here.run(arena());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines_of(outcome.out).back(), "out/report.html");
  auto rows = cells(here);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at("majority class").at("status"), "baseline");
  for (const auto* name : {"linear", "local 4"}) {
    SCOPED_TRACE(name);
    const auto& row = rows.at(name);
    EXPECT_EQ(row.at("task"), "recall");
    EXPECT_EQ(row.at("seed"), 1);
    EXPECT_EQ(row.at("metric"), "accuracy");
    EXPECT_EQ(row.at("status"), "ok");
    EXPECT_EQ(row.at("reason"), "");
    EXPECT_EQ(row.at("split"), "test");
    EXPECT_EQ(row.at("chosen_by"), "valid");
    for (const auto* key : {"parameters", "tokens_per_second", "peak_bytes"})
      EXPECT_GT(row.at(key).get<double>(), 0) << key;
    EXPECT_TRUE(here.has("out/" + row.at("run").get<std::string>() + "/model.safetensors"));
  }
  EXPECT_NE(here.read("out/report.html").find("<svg"), std::string::npos);
  EXPECT_NE(here.read("out/table.md").find("local 4"), std::string::npos);
  EXPECT_NE(here.read("out/table.csv").find("local 4"), std::string::npos);
}

TEST(ArenaCommand, ASecondCallReadsWhatIsFinished) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  ASSERT_EQ(here.run(arena()).code, 0);
  const auto before = here.read("out/results.json");
  const auto weights = here.path("out/cells/recall/linear/seed-1/model.safetensors");
  const auto written = std::filesystem::last_write_time(weights);
  ASSERT_EQ(here.run(arena()).code, 0);
  EXPECT_EQ(here.read("out/results.json"), before);
  EXPECT_EQ(std::filesystem::last_write_time(weights), written);
}

TEST(ArenaCommand, ACellOfAnotherConfigIsTrainedAgain) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  ASSERT_EQ(here.run(arena({"--mechanisms", "linear"})).code, 0);
  here.write("arena.yaml", replaced(kArena, "max_steps: 12", "max_steps: 13"));
  ASSERT_EQ(here.run(arena({"--mechanisms", "linear"})).code, 0);
  EXPECT_EQ(cells(here).at("linear").at("steps"), 13);
}

TEST(ArenaCommand, AKilledArenaGoesOnWhereItStopped) {
  const Workspace here;
  here.write("arena.yaml",
             replaced(kArena, "max_steps: 12", "max_steps: 300, checkpoint_every: 10"));
  const auto first = "out/cells/recall/linear/seed-1/results.json";
  {
    Running program(here.folder(), arena());
    ASSERT_TRUE(program.wait_until([&] { return here.has(first); }));
    program.signal(SIGKILL);
    ASSERT_EQ(program.finish().code, -SIGKILL);
  }
  const auto results = here.read(first);
  ASSERT_EQ(here.run(arena()).code, 0);
  EXPECT_EQ(here.read(first), results);
  EXPECT_EQ(cells(here).at("local 4").at("status"), "ok");
}

TEST(ArenaCommand, AFailedCellSaysWhyAndStopsNobody) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "  - linear\n",
                                    "  - {name: linformer, rank: 2, max_length: 3}\n  - linear\n"));
  const auto outcome = here.run(arena());
  EXPECT_EQ(outcome.code, 1);
  const auto rows = cells(here);
  EXPECT_EQ(rows.at("linformer").at("status"), "FAIL");
  EXPECT_EQ(rows.at("linformer").at("reason"), "linformer: 16 keys, but max_length is 3");
  EXPECT_TRUE(rows.at("linformer").at("score").is_null());
  EXPECT_EQ(rows.at("linear").at("status"), "ok");
  EXPECT_EQ(rows.at("local 4").at("status"), "ok");
  EXPECT_NE(outcome.err.find("[1/3] linformer on recall: FAIL (linformer: 16 keys, but max_length "
                             "is 3)"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("FAIL"), std::string::npos) << outcome.out;
}

TEST(ArenaCommand, SeedsReplaceThoseOfTheConfig) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  ASSERT_EQ(here.run(arena({"--mechanisms", "linear", "--seeds", "2"})).code, 0);
  std::vector<int> seeds;
  for (const auto& row : json::parse(here.read("out/results.json")))
    if (row.at("status") == "ok") seeds.push_back(row.at("seed").get<int>());
  EXPECT_EQ(seeds, (std::vector<int>{1, 2}));
}

TEST(ArenaCommand, AMistakeIsOneLineBeforeAnythingRuns) {
  struct Case {
    std::string arena, line;
    Arguments more = {};
  };
  const std::vector<Case> cases = {
      {kArena,
       "--mechanisms: 'liner' is not in the arena; did you mean 'linear'?",
       {"--mechanisms", "liner"}},
      {kArena, "--tasks: 'listops' is not in the arena; one of: recall", {"--tasks", "listops"}},
      {replaced(kArena, "- linear", "- liner"),
       "arena.yaml:10: unknown mechanism 'liner'; did you mean 'linear'?"},
      {replaced(kArena, "max_steps", "max_stpes"),
       "arena.yaml:4: unknown key 'max_stpes'; did you mean 'max_steps'?"},
      {replaced(kArena, "  recall:\n    data:", "  recal:\n    data:"),
       "arena.yaml:6: unknown task 'recal'; did you mean 'recall'?"},
      {replaced(kArena, "window: 4", "widnow: 4"),
       "arena.yaml:11: unknown key 'widnow'; did you mean 'window'?"},
      {"name: none\n", "arena.yaml:1: the arena has no cell; give it tasks and mechanisms"},
  };
  const Workspace here;
  for (const auto& [text, line, more] : cases) {
    here.write("arena.yaml", text);
    const auto outcome = here.run(arena(more));
    EXPECT_EQ(outcome.code, 2) << line;
    EXPECT_EQ(outcome.err, "longbow: " + line + "\n");
    EXPECT_FALSE(here.has("out")) << line;
  }
}

}  // namespace
}  // namespace longbow::cli

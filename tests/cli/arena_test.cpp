#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli/arenas.h"
#include "tests/cli/objectives.h"

namespace longbow::cli {
namespace {

using nlohmann::json;

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

// Two steps of every objective, with a mechanism that can stand everywhere and one that cannot.
TEST(ArenaCommand, HoldsEveryObjective) {
  const Workspace here;
  std::string text =
      "name: all\ncommon: {train: {max_steps: 2, batch_size: 8, bucket: 4}}\ntasks:\n";
  for (const auto& objective : tiny_objectives())
    text += "  " + objective.name + ": {" + objective.config + "}\n";
  here.write("arena.yaml", text + "mechanisms: [linear, {name: local, window: 4}]\n");
  const auto outcome = here.run(arena());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, std::map<std::string, json>> rows;
  for (const auto& row : json::parse(here.read("out/results.json")))
    rows[row.at("task")][row.at("mechanism")] = row;
  ASSERT_EQ(rows.size(), tiny_objectives().size());
  for (const auto& objective : tiny_objectives())
    for (const auto* mechanism : {"linear", "local"}) {
      SCOPED_TRACE(objective.name + " " + mechanism);
      const auto& row = rows.at(objective.name).at(mechanism);
      EXPECT_EQ(row.at("status"), "ok");
      EXPECT_EQ(row.at("metric"), objective.metric);
      EXPECT_EQ(row.at("larger_is_better"), objective.larger_is_better);
      EXPECT_EQ(row.at("format"), objective.percent ? "percent" : "number");
      EXPECT_TRUE(row.at("score").is_number());
    }
  const auto sites = [&](const char* task, const char* mechanism) {
    return rows.at(task).at(mechanism).at("sites");
  };
  EXPECT_EQ(sites("translation", "linear"), (json{"encoder", "decoder", "cross"}));
  EXPECT_EQ(sites("translation", "local"), (json{"encoder", "decoder"}));
  EXPECT_EQ(sites("characters", "local"), json{"deep"});
  EXPECT_EQ(sites("causal_lm", "local"), json::array());
  const auto config = here.read("out/cells/translation/local/seed-1/config.yaml");
  EXPECT_NE(config.find("cross_attention:\n      name: softmax"), std::string::npos) << config;
  EXPECT_TRUE(rows.at("joint_pairs").size() == 2) << "no accuracy beside a macro F1";
  EXPECT_EQ(rows.at("causal_lm").size(), 5u);
  EXPECT_EQ(rows.at("masked_lm").size(), 2u);
  for (const auto* column :
       {"classification accuracy % |", "joint_pairs macro_f1 % |", "regression pearson |",
        "causal_lm perplexity |", "replaced_tokens detector_loss |"})
    EXPECT_NE(here.read("out/table.md").find(column), std::string::npos) << column;
}

// The smallest perplexity is the best, and the largest accuracy, whatever they are.
TEST(ArenaCommand, MarksTheBestOfEachTaskInItsOwnDirection) {
  const Workspace here;
  here.write("arena.yaml", R"(name: mixed
common: {train: {max_steps: 6, batch_size: 8, bucket: 4, learning_rate: 0.01}}
tasks:
  listops:
    data: {listops: {train: 64, valid: 20, test: 40, min_length: 4, max_length: 20, max_depth: 3}}
  markov:
    data: {markov: {train: 64, valid: 16, test: 16, length: 12}}
  reverse:
    data: {reverse: {train: 64, valid: 16, test: 16, length: 6}}
mechanisms: [linear, softmax, fnet]
)");
  const auto outcome = here.run(arena());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, std::pair<double, std::string>> best;  // score and how it is written
  for (const auto& row : json::parse(here.read("out/results.json"))) {
    if (row.at("status") != "ok") continue;
    const auto task = row.at("task").get<std::string>();
    const auto score = row.at("score").get<double>();
    const bool better = !best.contains(task) ||
                        (task == "listops" ? score > best[task].first : score < best[task].first);
    char text[32];
    std::snprintf(text, sizeof text, task == "listops" ? "**%.2f**" : "**%.3f**",
                  task == "listops" ? 100 * score : score);
    if (better) best[task] = {score, text};
  }
  const auto table = here.read("out/table.md");
  const auto overview = table.substr(0, table.find("## listops"));
  for (const auto& [task, found] : best)
    EXPECT_NE(overview.find("| " + found.second + " |"), std::string::npos)
        << task << " " << found.second << "\n"
        << overview;
  EXPECT_NE(overview.find("| entropy of the chain | – | "), std::string::npos) << overview;
  EXPECT_NE(outcome.err.find("fnet on markov: n.a. (fnet is not causal)"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("Used where it can be: fnet in encoder only; other places are as the "
                             "config says."),
            std::string::npos)
      << outcome.out;
  const auto cell = json::parse(here.read("out/results.json")).at(5);
  EXPECT_EQ(cell.at("mechanism"), "fnet");
  EXPECT_EQ(cell.at("status"), "n.a.");
  EXPECT_EQ(cell.at("reason"), "fnet is not causal");
  EXPECT_TRUE(cell.at("metric").is_null());
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

TEST(ArenaCommand, AnInterruptedArenaNamesTheCommandThatContinues) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "valid: 16, test: 16", "valid: 200, test: 1600"));
  const std::string first = "out/cells/recall/linear/seed-1/";
  Running program(here.folder(), arena({"--set", "common.train.max_steps=11", "--threads", "1"}));
  ASSERT_TRUE(program.wait_until([&] { return here.has(first + "model.safetensors"); }));
  program.signal(SIGINT);  // in the last evaluation of the first cell
  const auto stopped = program.finish();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.err.find("longbow train"), std::string::npos)
      << "a cell is not continued alone";
  EXPECT_EQ(lines_of(stopped.err).back(),
            "longbow: interrupted; everything is saved, continue with: longbow arena arena.yaml "
            "--out out --set common.train.max_steps=11 --threads 1");
  using Entries = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Entries(here.path("out/cells/recall")), Entries()), 1)
      << "no other cell is begun";
  const auto resumed = here.run(
      {"arena", "arena.yaml", "--out", "out", "--set", "common.train.max_steps=11", "--resume"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(cells(here).at("linear").at("status"), "ok");
  EXPECT_EQ(cells(here).at("local 4").at("steps"), 11);
}

// The process that trains the first cell is the arena's only child.
TEST(ArenaCommand, ACellThatCrashesTakesNothingElseDown) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "max_steps: 12", "max_steps: 400"));
  Running program(here.folder(), arena());
  ASSERT_TRUE(
      program.wait_until([&] { return here.has("out/cells/recall/linear/seed-1/metrics.jsonl"); }));
  ASSERT_EQ(::kill(program.child(), SIGKILL), 0);
  const auto outcome = program.finish();
  EXPECT_EQ(outcome.code, 1);
  auto rows = cells(here);
  EXPECT_EQ(rows.at("linear").at("status"), "FAIL");
  EXPECT_EQ(rows.at("linear").at("reason"),
            "the process was ended by signal 9 (Killed); the machine may have run out of memory");
  EXPECT_EQ(rows.at("local 4").at("status"), "ok");
  EXPECT_EQ(here.run(arena()).code, 0) << "tried again";
  EXPECT_EQ(cells(here).at("linear").at("status"), "ok");
}

TEST(ArenaCommand, ModelsAreMadeEquallyLarge) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "{name: local, window: 4, label: local 4}", "none") +
                               "match_parameters: linear\n");
  const auto outcome = here.run(arena());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto count = [&](const char* name) {
    return cells(here).at(name).at("parameters").get<double>();
  };
  EXPECT_NEAR(count("none"), count("linear"), 0.1 * count("linear"));
}

// Also when only a part of the arena is asked for.
TEST(ArenaCommand, AModelIsAsLargeAsOneThatWasNotChosen) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "{name: local, window: 4, label: local 4}", "none") +
                               "match_parameters: linear\n");
  const auto part = here.run(arena({"--mechanisms", "none"}));
  ASSERT_EQ(part.code, 0) << part.err;
  const auto parameters = cells(here).at("none").at("parameters");
  const auto whole = here.run(arena());
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(cells(here).at("none").at("parameters"), parameters);
}

TEST(ArenaCommand, ATimeBudgetEndsEveryCell) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "max_steps: 12", "max_steps: 1000000"));
  const auto outcome = here.run(arena({"--time-budget", "1s"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const auto* name : {"linear", "local 4"})
    EXPECT_LT(cells(here).at(name).at("steps").get<int>(), 1000000);
  EXPECT_EQ(here.run(arena({"--time-budget", "soon"})).err,
            "longbow: --time-budget: 'soon' is no time; write 90s, 45m or 1.5h\n");
}

TEST(ArenaCommand, TwoDoNotWriteIntoOneFolder) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "max_steps: 12", "max_steps: 100000"));
  Running program(here.folder(), arena());
  ASSERT_TRUE(program.wait_until([&] { return here.has("out/cells"); }));
  std::filesystem::create_directories(here.path("elsewhere"));  // its messages are kept apart
  here.write("elsewhere/arena.yaml", kArena);
  const auto out = here.path("out").string();
  const auto second =
      Running(here.path("elsewhere"), {"arena", "arena.yaml", "--out", out}).finish();
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.err, "longbow: " + out +
                            ": another process is writing to it; wait until it ends, or choose "
                            "another --out\n");
}

TEST(ArenaCommand, ACellWithoutAFiniteScoreStopsNobodyAndCanBeReadAgain) {
  const Workspace here;
  here.write("arena.yaml", R"(name: wild
common: {model: {width: 16, layers: 1}, train: {max_steps: 3, batch_size: 8}}
tasks:
  wild:
    task: markov
    data: {markov: {train: 64, valid: 16, test: 16, length: 12}}
    train: {learning_rate: 1000, max_steps: 1, decay: constant}
  tame:
    task: markov
    data: {markov: {train: 64, valid: 16, test: 16, length: 12}}
mechanisms: [softmax]
)");
  for (int round = 0; round < 3; ++round) {
    const auto outcome = here.run(arena());
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("[1/2] softmax on wild: FAIL (no evaluation on valid gave a finite "
                               "perplexity)"),
              std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.out.find("FAIL"), std::string::npos) << outcome.out;
    std::map<std::string, json> rows;
    for (const auto& row : json::parse(here.read("out/results.json")))
      if (row.at("mechanism") == "softmax") rows[row.at("task")] = row;
    EXPECT_EQ(rows.at("wild").at("status"), "FAIL");
    EXPECT_TRUE(rows.at("wild").at("score").is_null());
    EXPECT_EQ(rows.at("tame").at("status"), "ok");
    // What longbow 0.1.0 wrote is not a JSON number, and is made again.
    if (round == 1)
      here.write("out/cells/wild/softmax/seed-1/results.json", "{\"score\": \".inf\"}");
  }
}

TEST(ArenaCommand, TheLabelNamesTheSeedAndTheProgressKnowsAllCells) {
  const Workspace here;
  here.write("arena.yaml", kArena);
  const auto outcome =  // so many steps that a cell takes a tenth of a second on any machine
      here.run({"arena", "arena.yaml", "--out", "out", "--seeds", "2", "--progress", "json",
                "--set", "common.train.max_steps=600"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("[4/4] local 4 on recall, seed 2: accuracy "), std::string::npos)
      << outcome.err;
  std::map<std::string, json> last;
  for (const auto& line : lines_of(outcome.err))
    if (line.starts_with("{")) last[json::parse(line).at("label")] = json::parse(line);
  const auto& first = last.at("[1/4] linear on recall, seed 1");
  EXPECT_GT(first.at("eta_all").get<double>(), first.at("eta").get<double>());
  for (const auto* value : {"loss", "tok/s", "lr", "mem"})
    EXPECT_TRUE(first.at("values").at(value).is_number()) << value;
  EXPECT_FALSE(last.at("[4/4] local 4 on recall, seed 2").contains("eta_all"));
}

// The report of an arena that runs, or was stopped, names the cells that are still to come.
TEST(ArenaCommand, CellsThatHaveNotRunArePending) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "max_steps: 12", "max_steps: 300"));
  Running program(here.folder(), arena());
  ASSERT_TRUE(program.wait_until([&] { return here.has("out/report.html"); }));
  program.signal(SIGKILL);
  ASSERT_EQ(program.finish().code, -SIGKILL);
  const auto rows = cells(here);
  EXPECT_EQ(rows.at("linear").at("status"), "ok");
  EXPECT_EQ(rows.at("local 4").at("status"), "pending");
  EXPECT_TRUE(rows.at("local 4").at("score").is_null());
  const auto page = here.read("out/report.html");
  EXPECT_NE(page.find("<h1>tiny</h1>"), std::string::npos);
  EXPECT_NE(page.find("1 of 2 cells pending"), std::string::npos);
  ASSERT_EQ(here.run(arena()).code, 0);
  EXPECT_EQ(cells(here).at("local 4").at("status"), "ok");
}

TEST(ArenaCommand, AModelThatDoesNotFitIsOutOfMemory) {
  const Workspace here;
  here.write("arena.yaml", replaced(kArena, "  recall:\n    data:",
                                    "  recall:\n    model: {width: 65536, layers: 1024}\n    "
                                    "data:"));
  const auto outcome = here.run(arena({"--mechanisms", "linear"}));
  EXPECT_EQ(outcome.code, 1);
  const auto row = cells(here).at("linear");
  EXPECT_EQ(row.at("status"), "OOM");
  EXPECT_TRUE(row.at("reason").get<std::string>().starts_with(
      "not enough memory: training takes at least 512 TiB (weights 128 TiB, "))
      << row;
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
      {replaced(kArena, "- linear", "- {name: nystromformer, conv: 4}"),
       "arena.yaml:10: nystromformer.conv is 4, but a filter has an odd length; take an odd "
       "number, or 0 for no filter"},
      {replaced(kArena, "- linear", "- linformer"),  // its 64 slots are more than the data's tokens
       "arena.yaml:10: linformer.rank is 64, but max_length is 16; lower rank"},
      {replaced(kArena, "label: local 4", "label: linear"),
       "arena.yaml:11: two mechanisms are called 'linear'; give one a label of its own, as in "
       "{name: softmax, label: other}"},
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

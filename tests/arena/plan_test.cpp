#include "longbow/arena/plan.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longbow/core/file.h"

namespace longbow::arena {
namespace {

const std::string kTasks = "tasks: {recall: {}, words: {task: markov}, reverse: {}}\n";

std::vector<ArenaCell> planned(const std::string& text, const ArenaChoice& choice = {}) {
  return plan(read<ArenaConfig>(parse_yaml(text, "arena.yaml")), choice);
}

TEST(ArenaPlan, HasACellForEveryMechanismTaskAndSeed) {
  const auto cells =
      planned(kTasks + "mechanisms: [linear, {name: local, label: near}]\nseeds: [3, 5]\n");
  ASSERT_EQ(cells.size(), 12u);
  EXPECT_EQ(cells[0].folder, "cells/recall/linear/seed-3");
  EXPECT_EQ(cells[7].folder, "cells/words/near/seed-5");
  EXPECT_EQ(cells[7].config.task, "markov");
  EXPECT_EQ(cells[7].config.objective, "causal_lm");
  EXPECT_EQ(cells[7].config.seed, 5u);
  EXPECT_TRUE(cells[7].sites.empty());
  EXPECT_EQ(cells[8].sites, (std::vector<std::string>{"encoder", "decoder", "cross"}));
  EXPECT_EQ(cells[10].sites, (std::vector<std::string>{"encoder", "decoder"}));
}

TEST(ArenaPlan, WhatAMechanismCannotLearnIsRefusedInItsCell) {
  const auto cells = planned(kTasks + "mechanisms: [fnet]\n");
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].refusal, "");
  EXPECT_EQ(cells[1].refusal, "fnet is not causal");
  EXPECT_EQ(cells[2].refusal, "");
  EXPECT_EQ(cells[2].sites, std::vector<std::string>{"encoder"});
}

TEST(ArenaPlan, ATaskMayHaveABase) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "longbow_arena_base";
  std::filesystem::create_directories(folder / "runs");
  write_file((folder / "runs/words.yaml").string(),
             "task: markov\nmodel: {width: 8, layers: 3}\ntrain: {max_steps: 7, batch_size: 5}\n");
  write_file((folder / "arena.yaml").string(),
             "common: {model: {width: 16}, train: {max_steps: 9}}\n"
             "tasks: {words: {base: runs/words.yaml, train: {batch_size: 6}}}\n"
             "mechanisms: [linear]\n");
  const auto cells = plan(read<ArenaConfig>(load_config((folder / "arena.yaml").string())), {});
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].config.task, "markov");
  EXPECT_EQ(cells[0].config.train.sampler.batch_size, 6) << "its own";
  EXPECT_EQ(cells[0].config.train.max_steps, 9) << "of all tasks";
  EXPECT_EQ(as_integer(*cells[0].config.model.find("width"), ""), 16);
  EXPECT_EQ(as_integer(*cells[0].config.model.find("layers"), ""), 3) << "of the base";
}

TEST(ArenaPlan, EveryCellGetsAnEqualShareOfTheTime) {
  const auto cells = planned(
      "tasks: {recall: {}, short: {task: recall, train: {max_seconds: 3}}, words: {task: markov}, "
      "long: {task: listops, pretrain: {objective: masked_lm}}}\nmechanisms: [linear, fnet]\n",
      {.seconds = 350, .jobs = 2});
  ASSERT_EQ(cells.size(), 8u);  // fnet is not causal, so that seven run
  EXPECT_DOUBLE_EQ(cells[0].config.train.max_seconds, 80) << "a fifth is for evaluations";
  EXPECT_DOUBLE_EQ(cells[2].config.train.max_seconds, 3) << "its own";
  EXPECT_DOUBLE_EQ(cells[6].config.train.max_seconds, 48);
  EXPECT_DOUBLE_EQ(cells[6].config.pretrain.max_seconds.value_or(0), 32);
}

std::string error(const std::string& text) {
  try {
    planned(text);
  } catch (const UserError& found) {
    return found.what();
  }
  return "";
}

TEST(ArenaPlan, EveryCellHasAFolderOfItsOwnInsideTheArena) {
  const auto cells = planned(
      "tasks: {../up: {task: recall}}\nmechanisms: [{name: linear, label: a b}, {name: "
      "linear, label: a_b}, {name: linear, label: ../../x}]\n");
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].folder, "cells/%2E.%2Fup/a%20b/seed-1");
  EXPECT_EQ(cells[1].folder, "cells/%2E.%2Fup/a_b/seed-1");
  EXPECT_EQ(cells[2].folder, "cells/%2E.%2Fup/%2E.%2F..%2Fx/seed-1");
}

TEST(ArenaPlan, ANameThatNamesNoFolderIsAMistake) {
  const auto labelled = [](const std::string& label) {
    return error(kTasks + "mechanisms: [{name: linear, label: " + label + "}]\n");
  };
  EXPECT_EQ(labelled("\"\""), "arena.yaml:2: label '' names nothing; write a word");
  EXPECT_EQ(labelled(".."), "arena.yaml:2: label '..' names nothing; write a word");
  EXPECT_EQ(labelled("\"a\\e[2J\""),
            "arena.yaml:2: label 'a\\x1b[2J' has a control character; write plain text");
  EXPECT_EQ(labelled(std::string(201, 'a')),
            "arena.yaml:2: label '" + std::string(60, 'a') +
                "…' is too long; its folder's name would have more than 200 bytes");
  EXPECT_EQ(error("tasks: {..: {task: recall}}\nmechanisms: [linear]\n"),
            "arena.yaml:1: task '..' names nothing; write a word");
}

TEST(ArenaPlan, TwoCellsOfOneNameAreAMistake) {
  EXPECT_EQ(error(kTasks + "mechanisms:\n  - linear\n  - {name: local, label: linear}\n"),
            "arena.yaml:4: two mechanisms are called 'linear'; give one a label of its own, as in "
            "{name: softmax, label: other}");
  EXPECT_EQ(error(kTasks + "mechanisms: [linear]\nseeds: [1, 2, 1]\n"),
            "arena.yaml: seeds has 1 twice; name each seed once");
}

TEST(ArenaPlan, PublishedScoresAreRowsOfTheirOwn) {
  const std::string mechanisms = "mechanisms: [linear]\npublished:\n";
  const auto rows = published_rows(read<ArenaConfig>(parse_yaml(
      kTasks + mechanisms +
          "  - {task: recall, metric: accuracy, cite: A paper, scores: {softmax: 0.9, fnet: 0.2}}\n"
          "  - {task: words, metric: perplexity, label: B, cite: B paper, scores: {linear: 7}}\n",
      "arena.yaml")));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].mechanism, "softmax, published");
  EXPECT_EQ(rows[1].mechanism, "fnet, published");
  EXPECT_EQ(rows[1].score, 0.2);
  EXPECT_EQ(rows[2].mechanism, "linear, B");
  EXPECT_EQ(rows[2].task, "words");
  EXPECT_EQ(rows[2].metric, "perplexity");
  EXPECT_EQ(rows[2].cite, "B paper");
  EXPECT_EQ(
      error(kTasks + mechanisms + "  - {task: recal, metric: accuracy, cite: A, scores: {}}\n"),
      "arena.yaml:4: published.task 'recal' is not in the arena; did you mean 'recall'?");
  EXPECT_EQ(
      error(kTasks + mechanisms + "  - {task: recall, metric: accuracy, scores: {}}\n"),
      "arena.yaml:4: published.cite is missing; each entry has task, metric, cite and scores");
  EXPECT_EQ(
      error(kTasks + mechanisms +
            "  - {task: recall, metric: accuracy, cite: A, scores: {softmax: much}}\n"),
      "arena.yaml:4: published.scores.softmax is 'much', not a number; write a finite number such "
      "as 0.5 or 1e-3");
  EXPECT_EQ(
      error(kTasks + mechanisms + "  - {task: recall, metric: accuracy, cite: A, scores: 3}\n"),
      "arena.yaml:4: published.scores is '3', not a map; write its keys below it, each as "
      "`key: value`");
}

TEST(ArenaPlan, AScoreIsPublishedOnce) {
  const std::string entry =
                        "  - {task: recall, metric: accuracy, cite: A, scores: {linear: 0.5}}\n",
                    start = kTasks + "mechanisms: [linear]\npublished:\n" + entry;
  EXPECT_EQ(error(start + entry),
            "arena.yaml:5: accuracy of 'linear, published' on recall is published twice; give one "
            "entry a label of its own");
  for (const auto* other :
       {"  - {task: words, metric: accuracy, cite: A, scores: {linear: 0.5}}\n",
        "  - {task: recall, metric: macro_f1, cite: A, scores: {linear: 0.5}}\n",
        "  - {task: recall, metric: accuracy, label: B, cite: B, scores: {linear: 0.5}}\n"})
    EXPECT_EQ(error(start + other), "") << other;
}

TEST(ArenaPlan, WhatIsNoMapIsNotPassedOver) {
  const std::string mechanisms = "mechanisms: [linear]\n",
                    hint = "; write its keys below it, each as `key: value`";
  EXPECT_EQ(error(kTasks + mechanisms + "common: 3\n"),
            "arena.yaml:3: common is '3', not a map" + hint);
  EXPECT_EQ(error(kTasks + mechanisms + "common: [train]\n"),
            "arena.yaml:3: common is a list, not a map" + hint);
  EXPECT_EQ(error("tasks: [recall]\n" + mechanisms),
            "arena.yaml:1: tasks is a list, not a map" + hint);
  EXPECT_EQ(error("tasks: {recall: 3}\n" + mechanisms),
            "arena.yaml:1: tasks.recall is '3', not a map" + hint);
  const auto cells =
      planned("common: {seed: 1, train: {max_steps: 7}}\ntasks:\n  recall:\n" + mechanisms);
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].config.train.max_steps, 7) << "a task that says nothing has what is common";
}

TEST(ArenaPlan, ASeedIsOneThatARunCanHave) {
  EXPECT_EQ(error(kTasks + "mechanisms: [linear]\nseeds: [1, -1]\n"),
            "arena.yaml:3: seeds[1] is -1, out of range; it may be 0..9007199254740992");
}

TEST(ArenaPlan, TheObjectiveMayDependOnTheOptionsOfTheData) {
  const auto cells =
      planned(std::string("tasks: {korean_chatbot: {data: {path: ") + LONGBOW_SOURCE_DIR +
              ", korean_chatbot: {use: classes}}}}\nmechanisms: [linear]\n");
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].refusal, "");
  EXPECT_EQ(cells[0].config.objective, "classification");
  EXPECT_EQ(to_json(*cells[0].config.model.find("attention")), "\"linear\"");
}

TEST(ArenaPlan, TheNameOfAnArenaStaysInRuns) {
  const auto refused = [](const std::string& name) -> std::string {
    try {
      check_folder_name(name, Place{"arena.yaml", 1});
    } catch (const UserError& found) {
      return found.what();
    }
    return "";
  };
  EXPECT_EQ(refused("a b"), "");
  EXPECT_EQ(refused("../../x"),
            "arena.yaml:1: name '../../x' is not a folder in runs/; leave out "
            "'/', or give a folder with --out");
  EXPECT_EQ(refused(".."), "arena.yaml:1: name '..' names nothing; write a word");
}

// They are refused with any mechanism, or the mechanism's own options are wrong.
TEST(ArenaPlan, MistakesStayMistakes) {
  EXPECT_EQ(error("tasks: {reverse: {model: {segments: 2}}}\nmechanisms: [fnet]\n")
                .find("arena.yaml:1: unknown key 'segments'"),
            0u)
      << "a key of the encoder alone";
  EXPECT_EQ(error("tasks: {reverse: {model: {width: 8}}}\nmechanisms: [fnet]\n"), "");
  EXPECT_EQ(error(kTasks + "mechanisms: [{name: fnet, size: 3}]\n")
                .find("arena.yaml:2: unknown key 'size'"),
            0u);
  EXPECT_EQ(error(kTasks + "mechanisms:\n  - linear\n  - name: h1d\n    block: 7\n"),
            "arena.yaml:5: h1d.block is 7, but halves of it are read; take an even number");
  EXPECT_EQ(error(kTasks + "mechanisms: [{name: local, per_layer: {window: [4]}}]\n"),
            "arena.yaml:2: per_layer.window is not a list of 2 values; give one for each layer");
  EXPECT_EQ(error(kTasks + "mechanisms: [{name: local, per_layer: {window: [4, 0]}}]\n"),
            "arena.yaml:2: local.window is 0, out of range; it may be 1..65536");
}

TEST(ArenaPlan, AMechanismThatDoesNotFitTheModelIsRefusedInItsCell) {
  const auto cells = planned(
      "tasks: {recall: {model: {width: 10, heads: 3, head_width: 4}}}\nmechanisms: [luna, none]\n"
      "common: {model: {block: {residual: reversible}}}\n");
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].refusal, "luna cannot divide an extra sequence of width 10 among 3 heads");
  EXPECT_NE(cells[1].refusal.find("model.block.residual is reversible, which needs a mixer and a "
                                  "feed-forward layer"),
            std::string::npos)
      << cells[1].refusal;
}

namespace fs = std::filesystem;

// The configs of the repository but for those that others are based on. The data of most is not
// there, so none is opened.
std::vector<std::string> configs() {
  std::vector<std::string> all;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(LONGBOW_SOURCE_DIR) / "configs"))
    if (entry.path().extension() == ".yaml" && entry.path().filename() != "base.yaml")
      all.push_back(entry.path().string());
  return all;
}

// The config with a folder that exists as data.path; its own may not be there.
Node with_some_path(Node tree) {
  if (auto* data = tree.find("data") ? &tree["data"] : nullptr; data && data->find("path"))
    (*data)["path"] = Node::string(LONGBOW_SOURCE_DIR);
  return tree;
}

TEST(Configs, AreAllRead) {
  int64_t arenas = 0, runs = 0;
  for (const auto& file : configs()) {
    SCOPED_TRACE(file);
    const auto tree = load_config(file);
    if (!tree.find("tasks")) {
      EXPECT_NO_THROW((void)read_model_config(tree));
      ++runs;
      continue;
    }
    auto arena = read<ArenaConfig>(tree);
    arena.common = with_some_path(arena.common);
    for (auto& [task, own] : arena.tasks.entries)
      own = with_some_path(merged(load_base(own), without_base(own)));
    const auto cells = plan(arena, {});
    for (const auto& cell : cells)
      EXPECT_TRUE(cell.refusal.empty() || cell.refusal.find("causal") != std::string::npos)
          << cell.label << " on " << cell.task << ": " << cell.refusal;
    EXPECT_EQ(arena.name, fs::path(file).stem()) << "the folder in runs is named as the file is";
    ++arenas;
  }
  EXPECT_GE(arenas, 6);
  EXPECT_GE(runs, 18);
}

}  // namespace
}  // namespace longbow::arena

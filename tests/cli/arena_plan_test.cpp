#include "longbow/cli/arena_plan.h"

#include <gtest/gtest.h>

namespace longbow::cli {
namespace {

const std::string kTasks = "tasks: {recall: {}, words: {task: markov}, reverse: {}}\n";

std::vector<ArenaCell> planned(const std::string& text, const ArenaCommand& command = {}) {
  return plan(read<ArenaConfig>(parse_yaml(text, "arena.yaml")), command);
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

// They are refused with any mechanism, or the mechanism's own options are wrong.
TEST(ArenaPlan, MistakesStayMistakes) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      planned(text);
    } catch (const UserError& found) {
      return found.what();
    }
    return "";
  };
  EXPECT_EQ(error("tasks: {reverse: {model: {width: 8}}}\nmechanisms: [fnet]\n")
                .find("arena.yaml:1: "
                      "unknown key 'width'"),
            0u);
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

}  // namespace
}  // namespace longbow::cli

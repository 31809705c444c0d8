#include "longbow/arena/match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "longbow/train/run/run_task.h"

namespace longbow::arena {
namespace {

const std::string kArena =
    "common: {model: {width: 16, heads: 2, layers: 2, block: {feed_forward: 256}}}\n"
    "tasks: {recall: {data: {recall: {train: 8, valid: 4, test: 4, keys: 6, values: 3, pairs: 3, "
    "queries: 3}}}}\n"
    "seeds: [1, 2]\n";

std::vector<ArenaCell> planned(const std::string& mechanisms, const std::string& arena = kArena) {
  return plan(
      read<ArenaConfig>(parse_yaml(arena + "mechanisms: " + mechanisms + "\n", "arena.yaml")), {});
}

void expect_near(int64_t got, int64_t want, const std::string& label) {
  EXPECT_NEAR(static_cast<double>(got), static_cast<double>(want), 0.1 * static_cast<double>(want))
      << label;
}

int64_t parameters(const ArenaCell& cell, const Splits& splits) {
  return make_task(cell.config, splits, at::kCPU)->parameter_count();
}

TEST(MatchParameters, ByTheWidthOfTheFeedForwardLayers) {
  auto cells = planned("[softmax, mega, none]");
  const auto splits = load_data(cells[0].config.data);
  const auto before = parameters(cells[0], splits);
  EXPECT_GT(parameters(cells[2], splits), before * 11 / 10);
  EXPECT_LT(parameters(cells[4], splits), before * 9 / 10);
  match_parameters(cells, cells[0], splits);
  for (const auto& cell : cells) expect_near(parameters(cell, splits), before, cell.label);
  EXPECT_EQ(parameters(cells[0], splits), before) << "is what the others are compared with";
}

// A part of an arena is as large as in the whole of it.
TEST(MatchParameters, TheModelToCompareWithNeedNotBeTrained) {
  const auto like = planned("[softmax]");
  auto alone = planned("[none]"), whole = planned("[softmax, none]");
  const auto splits = load_data(like[0].config.data);
  match_parameters(alone, like[0], splits);
  match_parameters(whole, whole[0], splits);
  EXPECT_EQ(parameters(alone[0], splits), parameters(whole[2], splits));
  expect_near(parameters(alone[0], splits), parameters(like[0], splits), "none");
}

// The width of the nearest size among multiples of 8 would be no number of groups of 24.
TEST(MatchParameters, SparseLayersGetWholeGroups) {
  auto cells = planned(
      "[softmax, mega, none]",
      "common: {model: {width: 16, heads: 2, layers: 2, block: {feed_forward: 240, "
      "feed_forward_kind: sparse, sparse: {group: 24}}}}\n"
      "tasks: {recall: {data: {recall: {train: 8, valid: 4, test: 4, keys: 6, values: 3, pairs: 3, "
      "queries: 3}}}}\n");
  const auto splits = load_data(cells[0].config.data);
  match_parameters(cells, cells[0], splits);
  for (const auto& cell : cells) {
    const auto width = as_integer(*cell.config.model.find("block")->find("feed_forward"), "width");
    EXPECT_EQ(width % 24, 0) << cell.label << " " << width;
    expect_near(parameters(cell, splits), parameters(cells[0], splits), cell.label);
  }
}

TEST(MatchParameters, NeedsACellToCompareWith) {
  auto cells = planned("[softmax, linear]");
  const auto splits = load_data(cells[0].config.data);
  cells[0].refusal = "it is tired";
  try {
    match_parameters(cells, cells[0], splits);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "match_parameters: 'softmax' has no cell on recall; name a mechanism that does "
                 "every task of the arena");
  }
}

}  // namespace
}  // namespace longbow::arena

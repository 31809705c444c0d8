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

std::vector<ArenaCell> planned(const std::string& mechanisms) {
  return plan(
      read<ArenaConfig>(parse_yaml(kArena + "mechanisms: " + mechanisms + "\n", "arena.yaml")), {});
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
  match_parameters(cells, "softmax", splits);
  for (const auto& cell : cells)
    EXPECT_NEAR(static_cast<double>(parameters(cell, splits)), static_cast<double>(before),
                0.1 * static_cast<double>(before))
        << cell.label << ", seed " << cell.seed;
  EXPECT_EQ(parameters(cells[0], splits), before) << "is what the others are compared with";
}

TEST(MatchParameters, NeedsACellToCompareWith) {
  auto cells = planned("[softmax, linear]");
  const auto splits = load_data(cells[0].config.data);
  cells[0].refusal = "it is tired";
  try {
    match_parameters(cells, "softmax", splits);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "match_parameters: 'softmax' has no cell on recall; name a mechanism that does "
                 "every task of the arena");
  }
}

}  // namespace
}  // namespace longbow::arena

#include "longbow/arena/match.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "longbow/core/log.h"
#include "longbow/nn/layers/block.h"
#include "longbow/train/run/run_task.h"

namespace longbow::arena {
namespace {

constexpr double kNear = 0.1;

// Widths are multiples of it.
int64_t step_of(const Node& model) {
  constexpr int64_t kStep = 8;
  const auto* block = model.find("block");
  const auto config = block ? read<BlockConfig>(*block, "model.block") : BlockConfig();
  const auto& layer = config.feed_forward;
  return layer.kind == FeedForwardKind::sparse ? std::lcm(kStep, layer.sparse.group) : kStep;
}

RunConfig with_width(RunConfig config, int64_t width) {
  config.model["block"]["feed_forward"] = Node::integer(width);
  return config;
}

double parameters_of(const RunConfig& config, const Splits& splits) {
  return static_cast<double>(make_task(config, splits, at::kCPU)->parameter_count());
}

// The number of parameters is a line over the width: two points of it give the width wanted.
int64_t width_for(const RunConfig& config, const Splits& splits, double wanted) {
  const int64_t step = step_of(config.model);
  const double first = parameters_of(with_width(config, step), splits),
               slope = parameters_of(with_width(config, 2 * step), splits) - first;  // by the step
  if (slope <= 0) return 0;
  return step * std::max<int64_t>(1 + std::llround((wanted - first) / slope), 1);
}

void check_stacks(const ArenaCell& cell) {
  for (const auto* key : {"encoder", "decoder"})
    if (cell.config.model.find(key))
      throw UserError(Place{"match_parameters", 0},
                      fmt::format("the model of {} has several stacks", cell.task),
                      "leave match_parameters out");
}

}  // namespace

void match_parameters(std::span<ArenaCell> cells, const ArenaCell& like, const Splits& splits) {
  const auto& label = like.label;
  if (!like.refusal.empty())
    throw UserError(Place{"match_parameters", 0},
                    fmt::format("'{}' has no cell on {}", label, like.task),
                    "name a mechanism that does every task of the arena");
  check_stacks(like);
  const double wanted = parameters_of(like.config, splits);
  std::map<std::string, int64_t> widths;  // by label
  for (auto& cell : cells) {
    if (!cell.refusal.empty() || cell.label == label) continue;
    if (const auto known = widths.find(cell.label); known != widths.end()) {
      if (known->second > 0) cell.config = with_width(cell.config, known->second);
      continue;
    }
    const auto width = widths[cell.label] = width_for(cell.config, splits, wanted);
    if (width > 0) cell.config = with_width(cell.config, width);
    const double reached = parameters_of(cell.config, splits);
    if (std::abs(reached - wanted) > kNear * wanted)
      warn(fmt::format("{} on {} has {} parameters, {} has {}", cell.label, cell.task,
                       human_count(reached), label, human_count(wanted)));
  }
}

}  // namespace longbow::arena

#include "longbow/arena/match.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "longbow/core/log.h"
#include "longbow/train/run/run_task.h"

namespace longbow::arena {
namespace {

constexpr double kNear = 0.1;
constexpr int64_t kStep = 8;  // widths are multiples of it

RunConfig with_width(RunConfig config, int64_t width) {
  config.model["block"]["feed_forward"] = Node::integer(width);
  return config;
}

double parameters_of(const RunConfig& config, const Splits& splits) {
  return static_cast<double>(make_task(config, splits, at::kCPU)->parameter_count());
}

// The number of parameters is a line over the width: two points of it give the width wanted.
int64_t width_for(const RunConfig& config, const Splits& splits, double wanted) {
  constexpr int64_t kFirst = 64, kSecond = 128;
  const double first = parameters_of(with_width(config, kFirst), splits),
               slope = (parameters_of(with_width(config, kSecond), splits) - first) /
                       static_cast<double>(kSecond - kFirst);
  if (slope <= 0) return 0;
  const double width = static_cast<double>(kFirst) + (wanted - first) / slope;
  return std::max<int64_t>(std::llround(width / kStep) * kStep, kStep);
}

void check_stacks(const ArenaCell& cell) {
  for (const auto* key : {"encoder", "decoder"})
    if (cell.config.model.find(key))
      throw UserError(Place{"match_parameters", 0},
                      fmt::format("the model of {} has several stacks", cell.task),
                      "leave match_parameters out");
}

}  // namespace

void match_parameters(std::span<ArenaCell> cells, const std::string& label, const Splits& splits) {
  const auto like = std::ranges::find(cells, label, &ArenaCell::label);
  if (like == cells.end() || !like->refusal.empty())
    throw UserError(Place{"match_parameters", 0},
                    fmt::format("'{}' has no cell on {}", label, cells.front().task),
                    "name a mechanism that does every task of the arena");
  check_stacks(*like);
  const double wanted = parameters_of(like->config, splits);
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

#include "longbow/report/heat_map.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/core/file.h"
#include "longbow/train/trainer.h"

namespace longbow::cli {
namespace {

// The attention weights of one sample by layer, [H, N, keys] each.
Tensors maps_of(Task& task, const Dataset& data, int64_t sample) {
  const at::NoGradGuard no_grad;
  task.model().eval();
  Tensors found;
  task.show_maps(&found);
  const Plan plan = {.indices = {sample}, .padded_length = data.length(sample)};
  task.run(collate(data, plan).to(task.device()), Random::from_seed(0, 0, task.device()));
  task.show_maps(nullptr);
  for (auto& [path, map] : found) map = map[0].to(at::kCPU, at::kFloat);
  return found;
}

// layers.2 before layers.10.
bool comes_before(const std::string& a, const std::string& b) {
  const auto digits = [](const std::string& text) {
    const auto start = text.find_first_of("0123456789");
    return start == std::string::npos ? 0 : std::atoll(text.c_str() + start);
  };
  return std::pair(digits(a), a) < std::pair(digits(b), b);
}

reporting::HeatMap heat_map(const Tensor& weights, int64_t limit) {
  const int64_t rows = limit > 0 ? std::min(limit, weights.size(0)) : weights.size(0);
  const auto shown = weights.narrow(0, 0, rows).contiguous();
  const auto* data = shown.const_data_ptr<float>();
  return {rows, shown.size(1), {data, data + shown.numel()}};
}

}  // namespace

int run(const MapsCommand& command) {
  if (command.split != "train" && command.split != "valid" && command.split != "test")
    throw UserError(Place{"--split", 0}, "unknown split '" + command.split + "'",
                    "one of: train, valid, test");
  auto finished = open_run(command.folder, parse_device(command.device));
  const auto& splits = finished.task->splits();
  const auto& data = command.split == "train"   ? *splits.train
                     : command.split == "valid" ? *splits.valid
                                                : *splits.test;
  if (command.sample >= data.size())
    throw UserError(Place{"--sample", 0}, fmt::format("there is no sample {}", command.sample),
                    fmt::format("the split has {}", data.size()));
  const auto found = maps_of(*finished.task, data, command.sample);
  if (found.empty())
    throw UserError(Place{command.folder, 0}, "its model forms no attention maps",
                    "softmax, linformer and others that weigh keys or slots do");
  std::vector<std::string> paths;
  for (const auto& [path, map] : found) paths.push_back(path);
  std::sort(paths.begin(), paths.end(), comes_before);
  const auto mechanism = mechanism_label(finished.config.model);
  reporting::HeatGrid grid = {
      .title = fmt::format("{} on {}", mechanism, finished.config.task),
      .description = fmt::format("attention weights of sample {} of the {} split", command.sample,
                                 command.split),
      .row_labels = {},
      .column_labels = {},
      .maps = {}};
  const int64_t heads = found.at(paths.front()).size(0);
  for (int64_t h = 0; h < heads; ++h) grid.column_labels.push_back(fmt::format("head {}", h));
  for (const auto& path : paths) {
    const auto& map = found.at(path);
    if (map.size(0) != heads)
      throw UserError(Place{command.folder, 0}, "its layers have different numbers of heads",
                      "such a model has no grid of maps");
    grid.row_labels.push_back(path.substr(0, path.rfind(".mixer")));
    for (int64_t h = 0; h < heads; ++h) grid.maps.push_back(heat_map(map[h], command.limit));
  }
  write_file(command.out, reporting::heat_grid(grid));
  fmt::print("{}\n", command.out);
  return 0;
}

}  // namespace longbow::cli

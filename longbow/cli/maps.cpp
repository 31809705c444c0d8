#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "longbow/cli/asking.h"
#include "longbow/cli/device.h"
#include "longbow/core/file.h"
#include "longbow/predict/map_axes.h"
#include "longbow/report/draw/heat_map.h"
#include "longbow/train/run/finished_run.h"

namespace longbow::cli {
namespace {

// The weights of one layer over one sequence.
struct LayerMap {
  std::string name;
  Tensor weights;  // [H, queries, keys], on the CPU
  predict::MapAxes axes;
};

// What the layers weigh when they read a sample, by path.
Tensors looked_at(Task& task, const Dataset& data, int64_t sample) {
  const at::NoGradGuard no_grad;
  task.model().eval();
  Tensors found;
  task.show_maps(&found);
  const Plan plan = {.indices = {sample}, .padded_length = data.length(sample)};
  task.run(collate(data, plan).to(task.device()), Random::from_seed(0, 0, task.device()));
  task.show_maps(nullptr);
  return found;
}

Tensor first_rows(const Tensor& weights, int64_t rows, int64_t columns) {
  return weights.narrow(1, 0, std::min(rows, weights.size(1)))
      .narrow(2, 0, std::min(columns, weights.size(2)))
      .contiguous();
}

std::vector<LayerMap> maps_of(FinishedRun& run, const Dataset& data, const MapsCommand& command) {
  const auto found = looked_at(*run.task, data, command.sample);
  const predict::MapReader reader(run.task->model_config(), run.config.objective,
                                  run.task->splits(), data.get(command.sample));
  std::vector<std::string> paths;
  for (const auto& [path, map] : found)
    if (map.dim() == 4) paths.push_back(path);
  std::sort(paths.begin(), paths.end(), [&](const std::string& path, const std::string& other) {
    return reader.comes_before(path, other);
  });
  std::vector<LayerMap> maps;
  for (const auto& path : paths) {
    const auto all = found.at(path).to(at::kCPU, at::kFloat);
    for (int64_t sequence = 0; sequence < all.size(0); ++sequence) {
      const auto each = all[sequence];
      auto axes = reader.axes(path, sequence, each.size(1), each.size(2));
      if (command.limit > 0) axes.keep_rows(command.limit);
      auto name = reader.name(path);
      if (all.size(0) > 1) name += sequence == 0 ? " first" : " second";
      maps.push_back({name, first_rows(each, axes.rows, axes.columns), axes});
    }
  }
  return maps;
}

reporting::HeatGrid picture(const std::vector<LayerMap>& maps) {
  reporting::HeatGrid grid = {
      .title = "", .description = "", .row_labels = {}, .column_labels = {}, .maps = {}};
  int64_t heads = 0;
  for (const auto& map : maps) heads = std::max(heads, map.weights.size(0));
  for (int64_t h = 0; h < heads; ++h) grid.column_labels.push_back(fmt::format("head {}", h));
  for (const auto& [name, weights, axes] : maps) {
    grid.row_labels.push_back(name);
    for (int64_t h = 0; h < heads; ++h) {
      if (h >= weights.size(0)) {
        grid.maps.emplace_back();
        continue;
      }
      const auto one = weights[h];
      const auto* data = one.const_data_ptr<float>();
      grid.maps.push_back({.rows = one.size(0),
                           .columns = one.size(1),
                           .values = {data, data + one.numel()},
                           .row_names = axes.queries,
                           .column_names = axes.keys,
                           .row_title = axes.row_title,
                           .column_title = axes.column_title});
    }
  }
  return grid;
}

Node names(const std::vector<std::string>& list) {
  Node node = Node::list();
  for (const auto& name : list) node.items.push_back(Node::string(name));
  return node;
}

Node rows_of(const Tensor& map) {
  Node rows = Node::list();
  for (int64_t i = 0; i < map.size(0); ++i) {
    auto& row = rows.items.emplace_back(Node::list());
    for (int64_t j = 0; j < map.size(1); ++j)
      row.items.push_back(Node::number(map[i][j].item<double>()));
  }
  return rows;
}

Node json_of(const std::vector<LayerMap>& maps, const MapsCommand& command,
             const RunConfig& config) {
  Node list = Node::list();
  for (const auto& [name, weights, axes] : maps)
    for (int64_t h = 0; h < weights.size(0); ++h)
      list.items.push_back(Node::map({{"layer", Node::string(name)},
                                      {"mechanism", Node::string(axes.mechanism)},
                                      {"head", Node::integer(h)},
                                      {"queries", names(axes.queries)},
                                      {"keys", names(axes.keys)},
                                      {"weights", rows_of(weights[h])}}));
  return Node::map({{"task", Node::string(config.task)},
                    {"objective", Node::string(config.objective)},
                    {"split", Node::string(command.split)},
                    {"sample", Node::integer(command.sample)},
                    {"maps", list}});
}

}  // namespace

int run(const MapsCommand& command) {
  check_split(command.split);
  if (auto file = std::filesystem::path(command.out); file.extension() != ".svg")
    throw UserError(Place{"--out", 0}, quote(command.out) + " is not the name of an SVG file",
                    "write --out " + file.replace_extension(".svg").string());
  auto finished = open_run(command.folder, parse_device(command.device));
  const auto& data = split_of(*finished.task, command.split);
  if (command.sample >= data.size())
    throw UserError(Place{"--sample", 0}, fmt::format("there is no sample {}", command.sample),
                    fmt::format("the split has {}", data.size()));
  const auto maps = maps_of(finished, data, command);
  const auto mechanism = mechanism_label(finished.config.model);
  if (maps.empty())
    throw UserError(
        Place{command.folder, 0}, mechanism + " forms no attention maps",
        fmt::format("mechanisms that do: {}", fmt::join(predict::mechanisms_with_maps(), ", ")));
  auto grid = picture(maps);
  grid.title = fmt::format("{} on {}", mechanism, finished.config.task);
  grid.description =
      fmt::format("attention weights of sample {} of the {} split", command.sample, command.split);
  write_file(command.out, reporting::heat_grid(grid));
  if (!command.json.empty())
    write_file(command.json, to_json(json_of(maps, command, finished.config)) + "\n");
  fmt::print("{}\n", command.out);
  return 0;
}

}  // namespace longbow::cli

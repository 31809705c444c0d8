#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "longbow/cli/asking.h"
#include "longbow/cli/device.h"
#include "longbow/core/file.h"
#include "longbow/predict/maps.h"
#include "longbow/report/draw/heat_map.h"

namespace longbow::cli {
namespace {

reporting::HeatGrid picture(const std::vector<predict::LayerMap>& maps) {
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

Node json_of(const std::vector<predict::LayerMap>& maps) {
  Node list = Node::list();
  for (const auto& [name, weights, axes] : maps)
    for (int64_t h = 0; h < weights.size(0); ++h)
      list.items.push_back(Node::map({{"layer", Node::string(name)},
                                      {"mechanism", Node::string(axes.mechanism)},
                                      {"head", Node::integer(h)},
                                      {"queries", names(axes.queries)},
                                      {"keys", names(axes.keys)},
                                      {"weights", rows_of(weights[h])}}));
  return list;
}

// The maps of a sample or of a text, and what they are of.
struct Shown {
  RunConfig config;
  std::vector<predict::LayerMap> maps;
  std::string description;
  Node source;  // the keys of the JSON that say it
};

Shown of_text(const MapsCommand& command) {
  const auto model = open_model(command.folder, parse_device(command.device));
  const auto inputs = predict::inputs_of(model.task(), {{command.text, {"--text", 0}}});
  const auto& config = model.config();
  return {config, predict::maps_of_text(model.task(), config.objective, *inputs, command.limit),
          "attention weights of a text", Node::map({{"text", Node::string(command.text)}})};
}

Shown of_sample(const MapsCommand& command) {
  const auto finished = open_run(command.folder, parse_device(command.device));
  const auto data = split_of(*finished.task, command.split);
  if (command.sample >= data->size())
    throw UserError(Place{"--sample", 0}, fmt::format("there is no sample {}", command.sample),
                    fmt::format("the split has {}", data->size()));
  const auto& config = finished.config;
  return {
      config,
      predict::maps_of(*finished.task, config.objective, *data, command.sample, command.limit),
      fmt::format("attention weights of sample {} of the {} split", command.sample, command.split),
      Node::map(
          {{"split", Node::string(command.split)}, {"sample", Node::integer(command.sample)}})};
}

}  // namespace

int run(const MapsCommand& command) {
  check_split(command.split);
  if (const MapsCommand none;
      !command.text.empty() && (command.split != none.split || command.sample != none.sample))
    throw UserError(Place{"--text", 0}, "a sample is given too", "leave one of them out");
  if (auto file = std::filesystem::path(command.out); file.extension() != ".svg")
    throw UserError(Place{"--out", 0}, quote(command.out) + " is not the name of an SVG file",
                    "write --out " + file.replace_extension(".svg").string());
  const auto [config, maps, description, source] =
      command.text.empty() ? of_sample(command) : of_text(command);
  const auto mechanism = mechanism_label(config.model);
  if (maps.empty())
    throw UserError(
        Place{command.folder, 0}, mechanism + " forms no attention maps",
        fmt::format("mechanisms that do: {}", fmt::join(predict::mechanisms_with_maps(), ", ")));
  auto grid = picture(maps);
  grid.title = fmt::format("{} on {}", mechanism, config.task);
  grid.description = description;
  write_file(command.out, reporting::heat_grid(grid));
  if (!command.json.empty()) {
    auto record = Node::map(
        {{"task", Node::string(config.task)}, {"objective", Node::string(config.objective)}});
    for (const auto& [key, value] : source.entries) record[key] = value;
    record["maps"] = json_of(maps);
    write_file(command.json, to_json(record) + "\n");
  }
  fmt::print("{}\n", command.out);
  return 0;
}

}  // namespace longbow::cli

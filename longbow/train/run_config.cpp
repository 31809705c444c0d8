#include "longbow/train/run_config.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace longbow {

RunConfig read_run_config(const Node& tree) {
  auto config = read<RunConfig>(tree);
  const auto* task = tree.find("task");
  const Place place = task ? task->place : tree.place;
  if (!task) throw UserError(place, "task is missing", "write task: listops");
  const auto& source = find_data_source(config.task, place, "task");
  if (config.objective.empty()) config.objective = source.objective;
  const auto* objective = tree.find("objective");
  const auto& kind = find_objective(config.objective, objective ? objective->place : place);
  const auto* data = tree.find("data");
  if (const auto* name = data ? data->find("name") : nullptr; name && name->text != config.task)
    throw UserError(name->place,
                    "data.name is '" + name->text + "', but the task is '" + config.task + "'",
                    "leave data.name out");
  config.data.name = config.task;
  if (const auto* path = data ? data->find("path") : nullptr; path && !config.data.path.empty()) {
    const fs::path given(config.data.path);
    if (given.is_relative() && path->place.line > 0)
      config.data.path = (fs::path(path->place.file).parent_path() / given).string();
    if (!fs::exists(config.data.path))
      throw UserError(path->place, "data.path '" + config.data.path + "' does not exist",
                      "make it with `longbow data make " + config.task + " --out DIR`");
    config.data.path = fs::absolute(config.data.path).lexically_normal().string();
  }
  kind.check(config.model);
  return config;
}

std::unique_ptr<Task> make_task(const RunConfig& config, at::Device device) {
  return find_objective(config.objective)
      .make(load_data(config.data), config.model,
            {.bucket = config.train.sampler.bucket,
             .seed = config.seed,
             .device = device,
             .normalise = config.train.normalise,
             .label_smoothing = config.train.label_smoothing});
}

}  // namespace longbow

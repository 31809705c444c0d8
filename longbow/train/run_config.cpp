#include "longbow/train/run_config.h"

#include <filesystem>

namespace fs = std::filesystem;

namespace longbow {

RunConfig read_run_config(const Node& tree) {
  auto config = read<RunConfig>(tree);
  std::vector<std::string> known;
  for (const auto& source : data_sources()) known.push_back(source.name);
  const auto* task = tree.find("task");
  const Place place = task ? task->place : tree.place;
  if (!task) throw UserError(place, "task is missing", "write task: listops");
  if (std::find(known.begin(), known.end(), config.task) == known.end())
    throw UserError(place, "unknown task '" + config.task + "'", suggest(config.task, known));
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
  const auto& encoder = config.model.encoder;
  if (encoder.head_width == 0 && encoder.width % encoder.heads != 0) {
    const auto* model = tree.find("model");
    const auto* heads = model ? model->find("heads") : nullptr;
    throw UserError(heads ? heads->place : place,
                    "model.width " + std::to_string(encoder.width) +
                        " is not a multiple of model.heads " + std::to_string(encoder.heads),
                    "change one of them, or set model.head_width");
  }
  check_attention(encoder);
  return config;
}

}  // namespace longbow

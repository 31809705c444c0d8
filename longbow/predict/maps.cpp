#include "longbow/predict/maps.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "longbow/data/feed/batch.h"

namespace longbow::predict {
namespace {

Batch batch_of(const Task& task, const Dataset& data, int64_t sample) {
  const Plan plan = {.indices = {sample}, .padded_length = data.length(sample)};
  return collate(data, plan).to(task.device());
}

// What the layers weigh while `reading` runs, by path.
Tensors looked_at(Task& task, const std::function<void()>& reading) {
  const at::NoGradGuard no_grad;
  Tensors found;
  task.model().eval();
  task.show_maps(&found);
  reading();
  task.show_maps(nullptr);
  return found;
}

Tensor first_rows(const Tensor& weights, int64_t rows, int64_t columns) {
  return weights.narrow(1, 0, std::min(rows, weights.size(1)))
      .narrow(2, 0, std::min(columns, weights.size(2)))
      .contiguous();
}

std::vector<LayerMap> arranged(const Tensors& found, const MapReader& reader, int64_t limit) {
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
      if (limit > 0) axes.keep_rows(limit);
      auto name = reader.name(path);
      if (all.size(0) > 1) name += sequence == 0 ? " first" : " second";
      maps.push_back({name, first_rows(each, axes.rows, axes.columns), axes});
    }
  }
  return maps;
}

// The source with what the model writes for it.
std::shared_ptr<const Dataset> translated(Task& task, const Dataset& inputs, const Random& random) {
  auto sample = inputs.get(0);
  task.model().eval();
  const auto decoded = task.write(batch_of(task, inputs, 0), task.decoding(), random);
  const auto length = decoded.lengths[0][0].item<int64_t>();
  const auto row = decoded.tokens[0][0].narrow(0, 0, length).cpu().contiguous();
  for (int64_t i = 0; i < length; ++i)
    sample.second.push_back(static_cast<int32_t>(row[i].item<int64_t>()));
  return std::make_shared<SampleList>(std::vector{sample}, /*per_token=*/false);
}

}  // namespace

std::vector<LayerMap> maps_of(Task& task, const std::string& objective, const Dataset& data,
                              int64_t sample, int64_t limit) {
  const auto found = looked_at(task, [&] {
    task.run(batch_of(task, data, sample), Random::from_seed(0, 0, task.device()));
  });
  return arranged(found, {task.model_config(), objective, task.splits(), data.get(sample)}, limit);
}

std::vector<LayerMap> maps_of_text(Task& task, const std::string& objective, const Dataset& inputs,
                                   int64_t limit) {
  const auto random = Random::from_seed(0, 0, task.device());
  const auto& command = find_objective(objective).command;
  if (command == "translate")
    return maps_of(task, objective, *translated(task, inputs, random), 0, limit);
  if (command == "generate") return maps_of(task, objective, inputs, 0, limit);
  const auto found = looked_at(task, [&] { task.predict(batch_of(task, inputs, 0), random); });
  return arranged(found, {task.model_config(), objective, task.splits(), inputs.get(0)}, limit);
}

}  // namespace longbow::predict

#include "longbow/train/run/run_task.h"

#include <utility>

#include "longbow/data/feed/loader.h"
#include "longbow/train/run/start_model.h"

namespace longbow {

Splits load_splits(const RunConfig& config) {
  auto splits = load_data(config.data);
  fit_vocabulary(config.start, splits);
  return splits;
}

std::unique_ptr<Task> make_task(const RunConfig& config, const Splits& splits, at::Device device) {
  const auto& sampler = config.train.sampler;
  auto task = find_objective(config.objective)
                  .make(splits, config.model,
                        {.bucket = sampler.bucket,
                         .seed = config.seed,
                         .device = device,
                         .normalise = config.train.normalise,
                         .label_smoothing = config.train.label_smoothing,
                         .lanes = sampler.carry ? sampler.batch_size : 0});
  freeze(config.start, task->model());
  return task;
}

std::unique_ptr<Task> make_task(const RunConfig& config, at::Device device) {
  return make_task(config, load_splits(config), device);
}

Sampler evaluation_order(const std::vector<int64_t>& lengths, SamplerConfig config) {
  config.shuffle = config.drop_last = false;
  return {lengths, std::move(config), 0};
}

Sampler training_order(const RunConfig& config, const Splits& splits) {
  const auto& sampler = config.train.sampler;
  for (const auto& split : {splits.valid, splits.test})
    (void)evaluation_order(lengths_of(*split), sampler);
  return {lengths_of(*splits.train), sampler, config.seed};
}

}  // namespace longbow

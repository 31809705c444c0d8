#include <ATen/ATen.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/nn/safetensors.h"
#include "longbow/train/checkpoint.h"
#include "longbow/train/trainer.h"

namespace longbow {

Evaluation evaluate(Classification& task, const Dataset& data, const SamplerConfig& sampler,
                    int64_t samples) {
  at::NoGradGuard no_grad;
  task.model().eval();
  auto lengths = lengths_of(data);
  if (samples > 0 && samples < data.size()) lengths.resize(static_cast<size_t>(samples));
  SamplerConfig order = sampler;
  order.shuffle = order.drop_last = false;
  Sampler plan(lengths, order, 0);
  double loss = 0, correct = 0, count = 0;
  for (int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
    const auto scores = task.run(collate(data, plan.next()), {});
    loss += scores.loss.item<double>();
    correct += scores.correct.item<double>();
    count += scores.count.item<double>();
  }
  task.model().train();
  return {loss / std::max(count, 1.0), correct / std::max(count, 1.0), static_cast<int64_t>(count)};
}

FinishedRun open_run(const std::string& folder, at::Device device) {
  const auto at = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  if (!std::filesystem::exists(at("config.yaml")))
    throw UserError(Place{folder, 0}, "is not a run folder: config.yaml is missing",
                    "`longbow train` prints the folder it fills");
  if (!std::filesystem::exists(at("model.safetensors")))
    throw UserError(Place{folder, 0}, "holds no finished run: model.safetensors is missing",
                    "finish it with `longbow train --resume`");
  FinishedRun run = {.config = read_run_config(load_config(at("config.yaml"))), .task = {}};
  const auto& c = run.config;
  run.task =
      std::make_unique<Classification>(c.data, c.model, c.train.sampler.bucket, c.seed, device);
  load_weights(run.task->model(), load_safetensors(at("model.safetensors")).tensors,
               at("model.safetensors"));
  return run;
}

std::string mechanism_label(const EncoderConfig& config) {
  std::string label;
  for (const auto& options : attention_per_layer(config.attention, config.layers)) {
    const auto& name = mechanism_of(options).name;
    if (label.empty())
      label = name;
    else if (("+" + label + "+").find("+" + name + "+") == std::string::npos)
      label += "+" + name;
  }
  return label;
}

}  // namespace longbow

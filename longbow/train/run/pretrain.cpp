#include "longbow/train/run/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "longbow/core/file.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/trainer.h"

namespace fs = std::filesystem;

namespace longbow {
namespace {

template <class T>
void lay_over(T& value, const std::optional<T>& other) {
  if (other) value = *other;
}

}  // namespace

RunConfig pretraining_of(const RunConfig& config) {
  auto first = config;
  const auto& own = config.pretrain;
  first.pretrain = {};
  first.objective = own.objective;
  first.model = merged(encoder_part(config.model), own.model);
  if (find_objective(own.objective).causal) first.model["causal"] = Node::boolean(true);
  auto& train = first.train;
  lay_over(train.max_steps, own.max_steps);
  lay_over(train.optimizer.learning_rate, own.learning_rate);
  lay_over(train.optimizer.weight_decay, own.weight_decay);
  lay_over(train.schedule.warmup_steps, own.warmup_steps);
  lay_over(train.sampler.batch_size, own.batch_size);
  lay_over(train.evaluate_every, own.evaluate_every);
  lay_over(train.checkpoint_every, own.checkpoint_every);
  return first;
}

void check_pretraining(const RunConfig& config, const Node& tree) {
  const auto& name = config.pretrain.objective;
  if (name.empty()) return;
  const auto* part = tree.find("pretrain");
  const auto* objective = part ? part->find("objective") : nullptr;
  std::vector<std::string> pretrain;
  for (const auto& row : objectives())
    if (row.pretrains) pretrain.push_back(row.name);
  if (std::find(pretrain.begin(), pretrain.end(), name) == pretrain.end())
    throw UserError(objective ? objective->place : tree.place,
                    fmt::format("'{}' does not pretrain", name), suggest(name, pretrain));
  find_objective(name).check(pretraining_of(config).model);
}

Inheritance pretrained(const RunConfig& config, const TrainOptions& options) {
  if (config.pretrain.objective.empty() || has_begun(options)) return {};
  const auto folder = fs::path(options.out) / "pretrain";
  // With it `longbow train RUN --resume` can go on in the middle of the pretraining.
  if (const auto file = fs::path(options.out) / "config.yaml"; !fs::exists(file))
    write_file(file.string(), to_yaml(written(config)));
  if (!options.resume || !fs::exists(folder / "results.json") ||
      !fs::exists(folder / "model.safetensors")) {
    auto own = options;
    own.out = folder.string();
    own.label = options.label + ", pretraining";
    const auto result = train(pretraining_of(config), own);
    if (result.status != "ok") throw std::runtime_error("pretraining: " + result.reason);
  }
  return {load_safetensors((folder / "model.safetensors").string()).tensors,
          {.source = "the pretraining"}};
}

}  // namespace longbow

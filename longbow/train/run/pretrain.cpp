#include "longbow/train/run/pretrain.h"

#include <filesystem>
#include <stdexcept>

#include "longbow/core/file.h"
#include "longbow/core/lock.h"
#include "longbow/core/run_folder.h"
#include "longbow/tensors/safetensors.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/start_model.h"

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
  first.model = pretraining_model(own, config.model);
  auto& train = first.train;
  lay_over(train.max_steps, own.max_steps);
  lay_over(train.max_seconds, own.max_seconds);
  lay_over(train.optimizer.learning_rate, own.learning_rate);
  lay_over(train.optimizer.weight_decay, own.weight_decay);
  lay_over(train.schedule.warmup_steps, own.warmup_steps);
  lay_over(train.sampler.batch_size, own.batch_size);
  if (own.batch_size) train.sampler.batch_tokens = 0;
  lay_over(train.sampler.batch_tokens, own.batch_tokens);
  if (!own.objective.empty() && !find_objective(own.objective).carries) train.sampler.carry = false;
  lay_over(train.evaluate_every, own.evaluate_every);
  lay_over(train.checkpoint_every, own.checkpoint_every);
  return first;
}

Inheritance pretrain(const RunConfig& config, const TrainOptions& options) {
  if (config.pretrain.objective.empty()) return {};
  const RunFolder run(options.out), folder = run.pretraining();
  // With it `longbow train RUN --resume` can go on in the middle of the pretraining.
  if (!run.is_run()) write_file(run.config(), to_yaml(written(config)));
  if (!options.resume || !std::filesystem::exists(folder.results()) || !folder.has_weights()) {
    auto own = options;
    own.out = folder.path();
    own.label = options.label + ", pretraining";
    const auto first = pretraining_of(config);
    const FolderLock lock(own.out);
    const auto weights = has_begun(own.out, own.resume)
                             ? Inheritance{}
                             : starting_weights(first.start, first.objective);
    const auto result = train_from(weights, first, own);
    if (result.status != "ok") throw std::runtime_error("pretraining: " + result.reason);
  }
  return {load_safetensors(folder.weights()).tensors, {.source = "the pretraining"}};
}

}  // namespace longbow

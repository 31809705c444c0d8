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

// Also where it has ended before: whether its folder holds this very pretraining, and how that
// ended, is for the trainer to say.
void run_first(const RunConfig& config, const TrainOptions& options) {
  const auto weights = has_checkpoint(options.out)
                           ? Inheritance{}
                           : starting_weights(config.start, config.objective);
  const auto result = train_from(weights, config, options);
  if (result.status != "ok") throw std::runtime_error("pretraining: " + result.reason);
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
  if (own.max_steps) train.max_epochs = 0;
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
  auto own = options;
  own.out = folder.path();
  own.label = options.label + ", pretraining";
  const FolderLock lock(own.out);
  const bool is_new = !run.is_run();
  // With it `longbow train RUN --resume` can go on in the middle of the pretraining.
  if (is_new) write_file(run.config(), to_yaml(written(config)));
  try {
    run_first(pretraining_of(config), own);
  } catch (...) {
    if (is_new && !folder.is_begun()) std::filesystem::remove(run.config());
    throw;
  }
  return {load_safetensors(folder.weights()).tensors, {.source = "the pretraining"}};
}

}  // namespace longbow

#include "longbow/train/run/run_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "longbow/core/option_error.h"
#include "longbow/tasks/task.h"
#include "longbow/text/trainers/preset.h"
#include "longbow/train/run/config_path.h"

namespace longbow {
namespace {

// What no single field can tell; `train` is the part of the tree, where there is one.
void check_training(TrainConfig& config, const Node* train) {
  const auto place_of = [&](const char* key) {
    const auto* found = train ? train->find(key) : nullptr;
    return found ? found->place : train ? train->place : Place{};
  };
  if (config.max_epochs > 0 && train && !train->find("max_steps")) config.max_steps = 0;
  if (config.max_steps == 0 && config.max_epochs == 0)
    throw UserError(place_of("max_steps"), "nothing says when training ends",
                    "set train.max_steps or train.max_epochs");
  if (config.sampler.carry && config.sampler.batch_tokens > 0)
    throw UserError(place_of("carry"),
                    "rows that go on need the same number of them in every batch",
                    "set train.batch_size instead of train.batch_tokens");
  check_options(train ? *train : Node(), "train", [&] { check_padded_lengths(config.sampler); });
  const auto& schedule = config.schedule;
  if (schedule.decay == Decay::one_cycle && schedule.warmup_steps > 0)
    throw UserError(place_of("warmup_steps"), "one_cycle has no warm-up of its own",
                    "leave train.warmup_steps out; train.one_cycle.rising is what it has instead");
  if (schedule.decay == Decay::warm_restarts && schedule.decay_steps == 0)
    throw UserError(place_of("decay"), "warm_restarts does not know how long its first fall is",
                    "set train.decay_steps");
  if (schedule.decay == Decay::multi_step && schedule.milestones.empty())
    throw UserError(place_of("decay"), "multi_step does not know when to drop",
                    "set train.milestones");
  if (schedule.decay == Decay::plateau && config.evaluate_every == 0)
    throw UserError(place_of("decay"), "plateau waits for evaluations, and there are none",
                    "set train.evaluate_every");
  const auto& optimizer = config.optimizer;
  if (optimizer.sgd.nesterov && (optimizer.sgd.momentum == 0 || optimizer.sgd.dampening > 0))
    throw UserError(place_of("sgd"), "nesterov needs a momentum and no dampening",
                    "set train.sgd.momentum");
  if (optimizer.adafactor.warmup_init && !optimizer.adafactor.relative_step)
    throw UserError(place_of("adafactor"), "warmup_init is a part of relative_step",
                    "set train.adafactor.relative_step");
}

// Where data.path is written, and null where it is not or is empty.
const Node* data_path(const Node& tree) {
  const auto* data = tree.find("data");
  const auto* path = data ? data->find("path") : nullptr;
  return path && !path->text.empty() ? path : nullptr;
}

// The tree with data.name, by which the options of the data set are read: it is the task. What the
// data set has its own defaults for is filled in.
Node with_data_name(Node tree) {
  const auto* task = tree.find("task");
  const auto* data = tree.find("data");
  if (!task || !task->is_scalar() || (data && !data->is_map() && !data->is_null())) return tree;
  const auto& source = find_data_source(task->text, task->place, "task");
  auto named = Node::string(task->text);
  named.place = task->place;
  if (const auto* name = data ? data->find("name") : nullptr; !name)
    tree["data"]["name"] = named;
  else if (name->text != named.text)
    throw UserError(name->place,
                    "data.name is '" + name->text + "', but the task is '" + named.text + "'",
                    "leave data.name out");
  drop_other_sets(tree["data"]);
  if (!source.defaults.empty())
    tree["data"] = merged(parse_yaml(source.defaults, Place{source.name, 0}), tree["data"]);
  return tree;
}

// Its file is named relative to the config.
void check_tokenizer(TokenizerConfig& config, const Node& tree) {
  const auto* data = tree.find("data");
  const auto* given = data ? data->find("tokenizer") : nullptr;
  if (!given) return;
  check_options(*given, "data.tokenizer", [&] { check_kind_options(config.training); });
  if (const auto* file = given->find("file"); file && !config.file.empty())
    config.file = absolute_path(config.file, file->place);
}

}  // namespace

RunConfig read_model_config(const Node& root) {
  if (!root.find("task")) throw UserError(root.place, "task is missing", "write task: listops");
  const auto tree = with_data_name(root);
  auto config = read<RunConfig>(tree);
  if (const auto* data = tree.find("data")) config.data.places = *data;
  const auto place = tree.place_of("task");
  const auto& source = find_data_source(config.task, place, "task");
  if (config.objective.empty()) config.objective = objective_of(source, config.data.options);
  const auto* objective = tree.find("objective");
  const auto& kind = find_objective(config.objective, objective ? objective->place : place);
  config.data.options = source.resolve(config.data.options);
  check_tokenizer(config.data.tokenizer, tree);
  const auto* train = tree.find("train");
  if (train) config.train.sampler.places = *train;
  check_training(config.train, train);
  if (config.train.sampler.carry && !kind.carries)
    throw UserError(train->place_of("carry"), config.objective + " reads every sample by itself",
                    "leave train.carry out, or take objective: causal_lm");
  config.model = kind.complete(config.model);
  resolve_start(config.start, config.model, config.objective, tree);
  kind.check(config.model);
  check_pretraining(config.pretrain, config.objective, config.model, tree);
  if (config.train.schedule.decay == Decay::plateau && !config.pretrain.objective.empty() &&
      config.pretrain.evaluate_every == 0)
    throw UserError(tree.place_of("pretrain.evaluate_every"),
                    "decay: plateau waits for evaluations, and pretraining has none",
                    "leave pretrain.evaluate_every out");
  if (const auto* path = data_path(tree))
    config.data.path = absolute_path(config.data.path, path->place);
  return config;
}

void check_data_path(const Node& tree, const std::string& hint) {
  const auto& task = *tree.find("task");
  const auto& source = find_data_source(task.text, task.place, "task");
  const auto* path = data_path(tree);
  if (!path && !source.make)
    throw UserError(task.place, "data.path is missing",
                    source.name + " reads files that exist already; name their folder");
  if (!path) return;
  const auto given = beside(path->text, path->place);
  if (std::filesystem::exists(given)) return;
  const auto how = source.make ? "make it with `longbow data make " + source.name + " --out DIR`"
                               : "name the folder of its files";
  throw UserError(path->place, "data.path '" + given + "' does not exist",
                  hint.empty() ? how : hint);
}

RunConfig read_run_config(const Node& tree) {
  auto config = read_model_config(tree);
  check_data_path(tree);
  return config;
}

int64_t total_steps(const TrainConfig& config, int64_t batches_per_epoch) {
  if (config.max_epochs == 0) return config.max_steps;
  const auto batches = std::ceil(config.max_epochs * static_cast<double>(batches_per_epoch));
  const auto steps =
      static_cast<int64_t>(std::ceil(batches / static_cast<double>(config.accumulate)));
  return config.max_steps > 0 ? std::min(config.max_steps, steps) : steps;
}

StepConfig step_config(const RunConfig& config) {
  const auto& train = config.train;
  const auto batch = std::max(train.sampler.batch_size, train.sampler.batch_tokens);
  return {.precision = train.precision,
          .optimizer = train.optimizer,
          .average = train.average,
          .graphs = train.graphs,
          .anomaly = train.anomaly,
          .nominal = static_cast<double>(batch * train.accumulate),
          .seed = config.seed};
}

}  // namespace longbow

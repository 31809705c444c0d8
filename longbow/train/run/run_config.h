#pragma once
// Everything that `longbow train` needs to know, as one tree: task, data, model, training, seed.
#include <array>
#include <string_view>

#include "longbow/data/feed/loader.h"
#include "longbow/data/readers/source.h"
#include "longbow/train/optimizers/schedule.h"
#include "longbow/train/run/pretrain_config.h"
#include "longbow/train/run/start.h"
#include "longbow/train/step/step.h"

namespace longbow {

struct TrainConfig {
  int64_t max_steps = 1000, accumulate = 1;
  double max_epochs = 0;
  Normalise normalise = Normalise::targets;
  double label_smoothing = 0;
  Precision precision = Precision::fp32;
  bool graphs = true, anomaly = false, events = true;
  SamplerConfig sampler = {};
  LoaderConfig loader = {};
  int64_t resident = int64_t{4} << 30;
  OptimizerConfig optimizer = {};
  AverageConfig average = {};
  ScheduleConfig schedule = {};
  int64_t log_every = 10, evaluate_every = 0, evaluate_samples = 0, checkpoint_every = 0,
          keep_checkpoints = 2, keep_every = 0;
  bool keep_best = false;
  int64_t patience = 0;
  double min_delta = 0, max_seconds = 0;
};
template <class V>
void fields(V& v, TrainConfig& c) {
  v("max_steps", c.max_steps,
    "optimiser steps; 0 = as many as max_epochs take, which is the default when only that is given",
    at_least(0));
  v("max_epochs", c.max_epochs,
    "stop after so many times through the data, if max_steps have not been done before; may be a "
    "fraction; 0 = never",
    range(0, 1e9));
  v("accumulate", c.accumulate, "batches per step; the loss is a mean over all of them together",
    range(1, 1e6));
  v("normalise", c.normalise,
    "what the loss is a mean over: all targets, or samples, each of them a mean over its targets");
  v("label_smoothing", c.label_smoothing,
    "share of each target that is spread over all classes, in training", range(0, 0.99));
  v("precision", c.precision, "of the forward and backward pass; weights are kept in float32");
  v("graphs", c.graphs, "on a GPU, capture the step as a CUDA graph and replay it");
  fields(v, c.sampler);
  fields(v, c.loader);
  v("resident", c.resident,
    "bytes; a training set that needs no more, 4 a token, is kept on the GPU; the default is "
    "4 GiB; 0 = never",
    at_least(0));
  fields(v, c.optimizer);
  fields(v, c.average);
  fields(v, c.schedule);
  v("anomaly", c.anomaly,
    "end with the place that the first number which is not finite comes from; slow");
  v("events", c.events, "write an event file for TensorBoard");
  v("log_every", c.log_every, "steps between training lines in metrics.jsonl", at_least(1));
  v("evaluate_every", c.evaluate_every, "steps between evaluations; 0 = at the end only",
    at_least(0));
  v("evaluate_samples", c.evaluate_samples, "validation samples that choose the weights; 0 = all",
    at_least(0));
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints; 0 = at the end only",
    at_least(0));
  v("keep_checkpoints", c.keep_checkpoints, "newest checkpoints to keep", at_least(1));
  v("keep_every", c.keep_every, "also keep the checkpoints of every so many steps; 0 = none",
    at_least(0));
  v("keep_best", c.keep_best,
    "also save a checkpoint at each best evaluation, and keep the last of them");
  v("patience", c.patience, "stop after so many evaluations without a better score; 0 = never",
    at_least(0));
  v("min_delta", c.min_delta,
    "by how much a score must be better for patience and for decay: plateau; the best weights are "
    "chosen without it",
    at_least(0));
  v("max_seconds", c.max_seconds,
    "stop after so many seconds of training, evaluations not counted; where they end before the "
    "steps do, warm-up and decay are gone through faster; 0 = never",
    at_least(0));
}

struct RunConfig {
  std::string task = "", objective = "";
  DataConfig data = {};
  Node model = Node::map();
  TrainConfig train = {};
  StartConfig start = {};
  PretrainConfig pretrain = {};
  uint64_t seed = 1;
};
template <class V>
void fields(V& v, RunConfig& c) {
  v("task", c.task, "required: the data set to learn; `longbow data list` names them");
  v("objective", c.objective,
    "what to learn of it, see docs/objectives/; empty: what the data set is made for");
  v("data", c.data, "where the samples come from");
  v("model", c.model, "the model, with the options of its objective");
  v("train", c.train, "how it is trained");
  v("start", c.start, "weights that exist, to go on from");
  v("pretrain", c.pretrain, "what the encoder learns of the same data first");
  v("seed", c.seed, "of initial values, order of samples and dropout, each a stream of its own",
    range(0, 9007199254740992.0));
}

// Reads and checks a tree before any data is opened: unknown task, unknown mechanism, wrong
// options, causal requests that cannot be met. A relative data.path or start.from is taken from the
// folder of the file that names it, and is made absolute so that the written config can be read
// from anywhere.
RunConfig read_run_config(const Node& tree);
// The same of a model that is opened without its data: whether data.path exists is not looked at.
RunConfig read_model_config(const Node& tree);
// UserError where data.path does not exist; `tree` is the whole config, as it was read. Without a
// hint it says how to make the files.
void check_data_path(const Node& tree, const std::string& hint = {});

// How many optimiser steps it asks for, of a split with so many batches.
int64_t total_steps(const TrainConfig& config, int64_t batches_per_epoch);
StepConfig step_config(const RunConfig& config);

}  // namespace longbow

#pragma once
// Everything that `longbow train` needs to know, as one tree: task, data, model, training, seed.
#include <array>
#include <string_view>

#include "longbow/data/loader.h"
#include "longbow/train/schedule.h"
#include "longbow/train/step.h"

namespace longbow {

struct TrainConfig {
  int64_t max_steps = 1000, accumulate = 1;
  Normalise normalise = Normalise::targets;
  double label_smoothing = 0;
  Precision precision = Precision::fp32;
  bool graphs = true;
  SamplerConfig sampler = {};
  LoaderConfig loader = {};
  OptimizerConfig optimizer = {};
  ScheduleConfig schedule = {};
  int64_t log_every = 10, evaluate_every = 0, evaluate_samples = 0, checkpoint_every = 0,
          keep_checkpoints = 2;
  int64_t patience = 0;
  double max_seconds = 0;
};
template <class V>
void fields(V& v, TrainConfig& c) {
  v("max_steps", c.max_steps, "optimiser steps", at_least(1));
  v("accumulate", c.accumulate, "batches per step; the loss is a mean over all of them together",
    at_least(1));
  v("normalise", c.normalise,
    "what the loss is a mean over: targets, or samples, each a mean over its targets");
  v("label_smoothing", c.label_smoothing, "share of each target that is spread over all classes",
    range(0, 0.99));
  v("precision", c.precision, "of the forward and backward pass; weights are kept in float32");
  v("graphs", c.graphs, "replay the step as a captured graph, on a GPU");
  fields(v, c.sampler);
  fields(v, c.loader);
  fields(v, c.optimizer);
  fields(v, c.schedule);
  v("log_every", c.log_every, "steps between training lines in metrics.jsonl", at_least(1));
  v("evaluate_every", c.evaluate_every, "steps between evaluations; 0 = at the end only",
    at_least(0));
  v("evaluate_samples", c.evaluate_samples, "validation samples that choose the weights; 0 = all",
    at_least(0));
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints; 0 = at the end only",
    at_least(0));
  v("keep_checkpoints", c.keep_checkpoints, "newest checkpoints to keep", at_least(1));
  v("patience", c.patience, "stop after so many evaluations without a better score; 0 = never",
    at_least(0));
  v("max_seconds", c.max_seconds, "stop after so much training time; 0 = never", at_least(0));
}

struct RunConfig {
  std::string task = "listops", objective = "";
  DataConfig data = {};
  Node model = Node::map();
  TrainConfig train = {};
  uint64_t seed = 1;
};
template <class V>
void fields(V& v, RunConfig& c) {
  v("task", c.task, "the data set to learn; `longbow data list` names them");
  v("objective", c.objective, "what to learn of it; empty: what it is made for");
  v("data", c.data, "where the samples come from");
  v("model", c.model, "the model, with the options of its objective");
  v("train", c.train, "how it is trained");
  v("seed", c.seed, "of initial values, order and dropout, each a stream of its own",
    range(0, 9007199254740992.0));
}

// Reads and checks a tree before any data is opened: unknown task, unknown mechanism, wrong
// options, causal requests that cannot be met. A relative data.path is taken from the folder of the
// file that names it, and is made absolute so that the written config can be read from anywhere.
RunConfig read_run_config(const Node& tree);

// The task that a config describes, with its data loaded and its model built.
std::unique_ptr<Task> make_task(const RunConfig& config, at::Device device);

}  // namespace longbow

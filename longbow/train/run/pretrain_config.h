#pragma once
// The part of a config that asks for self-pretraining.
#include <optional>
#include <string>

#include "longbow/core/fields.h"

namespace longbow {

struct PretrainConfig {
  std::string objective = "";
  Node model = Node::map();
  std::optional<int64_t> max_steps = {}, warmup_steps = {}, batch_size = {}, batch_tokens = {},
                         evaluate_every = {}, checkpoint_every = {};
  std::optional<double> learning_rate = {}, weight_decay = {}, max_seconds = {};
};
template <class V>
void fields(V& v, PretrainConfig& c) {
  v("objective", c.objective, "an objective that pretrains; empty: no pretraining");
  v("model", c.model, "options of that objective, over the encoder of the run");
  v("max_steps", c.max_steps,
    "optimiser steps, whatever train.max_epochs is; none = as many as train takes", at_least(1));
  v("max_seconds", c.max_seconds, "seconds of it at most; none = those of train", at_least(0));
  v("learning_rate", c.learning_rate, "peak learning rate; none = that of train", above(0));
  v("warmup_steps", c.warmup_steps, "steps of linear rise; none = that of train", at_least(0));
  v("weight_decay", c.weight_decay, "weight decay; none = that of train", at_least(0));
  v("batch_size", c.batch_size, "samples per batch; none = that of train", range(1, 1e6));
  v("batch_tokens", c.batch_tokens, "tokens per batch; none = that of train", range(0, 1e9));
  v("evaluate_every", c.evaluate_every, "steps between evaluations; none = that of train",
    at_least(0));
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints; none = that of train",
    at_least(0));
}

// The model that is pretrained: the encoder of `model` with another objective.
Node pretraining_model(const PretrainConfig& config, const Node& model);

// Refuses an objective that does not pretrain, a model that it cannot build, and one whose weights
// the run could not take over; `objective` and `model` are those of the run, `tree` is the whole
// config, as it was read.
void check_pretraining(const PretrainConfig& config, const std::string& objective,
                       const Node& model, const Node& tree);

}  // namespace longbow

#pragma once
#include <string>

#include "longbow/core/log.h"
#include "longbow/train/run/move.h"
#include "longbow/train/run/result.h"
#include "longbow/train/run/run_config.h"

namespace longbow {

struct TrainOptions {
  std::string out;      // the run folder
  bool resume = false;  // continue from its newest checkpoint
  at::Device device = at::kCPU;
  ProgressStyle progress = ProgressStyle::automatic;
  std::string label = "train";
  Queue after = {};  // runs that follow, for the time that is left
};

// Trains from these weights, or from random ones where there are none; evaluates and fills the run
// folder: config.yaml, config.json, metrics.jsonl, checkpoints/, model.safetensors (the best
// weights) and results.json. The folder is the caller's: locked, and without files that are not of
// this run. Throws Interrupted after saving when a signal has been noted (core/interruption.h). A
// run without a finite score has the status FAIL.
Result train_from(const Inheritance& weights, const RunConfig& config, const TrainOptions& options);

}  // namespace longbow

#pragma once
#include "longbow/train/run/run_config.h"

namespace longbow {

// What a training would take: its parameters, its memory, and one step of it.
struct DryRun {
  struct Row {
    std::string name;
    std::vector<int64_t> shape;  // empty for a module
    int64_t count = 0;
  };
  std::vector<Row> parameters;
  std::vector<Row> modules;  // with everything below them, in the order of the model
  int64_t total = 0;
  // Bytes. Activations are the most that lived at once during the step, above the rest.
  double weights = 0, gradients = 0, optimizer = 0, average = 0, activations = 0;
  int64_t samples = 0, length = 0;  // of the largest batch, which the step was made with
  double loss = 0, seconds = 0;
};

// Writes nothing anywhere.
DryRun dry_run(const RunConfig& config, at::Device device);

}  // namespace longbow

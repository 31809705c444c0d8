#pragma once
#include "longbow/train/run/run_config.h"

namespace longbow {

// The least bytes that a training can take, from its config alone: feed-forward layers, learned
// positions, what the optimiser keeps of them, and a vector a sample. It may take more, never less.
struct Footprint {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};
Footprint least_footprint(const RunConfig& config);

// c10::OutOfMemoryError when that is more than `available`, before anything is allocated.
void check_footprint(const RunConfig& config, double available);
// The same for the memory of this machine; a GPU tells by itself.
void check_footprint(const RunConfig& config, at::Device device);

}  // namespace longbow

#pragma once
// What training steps and written tokens cost, without evaluation and without files.
#include <string>
#include <vector>

#include "longbow/train/run/run_config.h"

namespace longbow {

// Real tokens per second of steps on the training split. Steps are taken until the device is warm,
// then timed for some seconds.
double measured_throughput(const RunConfig& config, at::Device device);

// One step on a full batch of random samples that are all of one length.
struct StepCost {
  std::vector<double> seconds;  // of each repetition
  double peak_bytes = 0;        // above weights and data
  std::string profile = "";     // where the time of one goes, when that is asked for
};
// The objective must be classification.
StepCost measured_step(const RunConfig& config, int64_t length, int64_t repetitions,
                       at::Device device, bool profiled = false);
// One more token of every text of a full batch, behind random beginnings that are all of one length
// and in the way that model.decoding says; replayed as a graph where `graphs` says so too. The
// objective must be causal_lm.
StepCost measured_decoding(const RunConfig& config, int64_t length, int64_t repetitions,
                           at::Device device, bool graphs = false, bool profiled = false);

}  // namespace longbow

#pragma once
#include "longbow/train/run/run_config.h"

namespace longbow {

// Real tokens per second of training steps alone: no evaluation, nothing written. Steps are taken
// until the device is warm, then timed for some seconds.
double measured_throughput(const RunConfig& config, at::Device device);

}  // namespace longbow

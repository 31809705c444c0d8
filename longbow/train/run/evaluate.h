#pragma once
#include "longbow/data/feed/sampler.h"
#include "longbow/tasks/task.h"

namespace longbow {

// The metrics of a split (its first `samples`, 0 = all), over everything counted.
struct Evaluation {
  std::vector<Metric> metrics;
  int64_t count = 0;
};
Evaluation evaluate(Task& task, const Dataset& data, const SamplerConfig& sampler,
                    int64_t samples = 0);

}  // namespace longbow

#pragma once
#include <functional>

#include "longbow/data/feed/sampler.h"
#include "longbow/tasks/task.h"

namespace longbow::predict {

// Batches as in training, so that what a sample gets does not depend on those beside it: its padded
// length is a function of its own. `longest` is what the model holds.
SamplerConfig as_trained(SamplerConfig config, int64_t longest);

// Every sample once; `take` gets the batch on the task's device, with the indices of its samples
// and what is drawn for it.
using Take = std::function<void(const Batch&, const std::vector<int64_t>&, const Random&)>;
void for_batches(const Task& task, const Dataset& data, SamplerConfig sampler, uint64_t seed,
                 const Take& take);

}  // namespace longbow::predict

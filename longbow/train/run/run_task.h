#pragma once
// The task that a run config describes.
#include "longbow/data/feed/sampler.h"
#include "longbow/tasks/task.h"
#include "longbow/train/run/run_config.h"

namespace longbow {

// The data of a run, with the vocabulary of the model that it starts from.
Splits load_splits(const RunConfig& config);
// Its task with a model of random weights. `splits` are those of load_splits, or the same without
// samples for a model that is only asked.
std::unique_ptr<Task> make_task(const RunConfig& config, const Splits& splits, at::Device device);
std::unique_ptr<Task> make_task(const RunConfig& config, at::Device device);

// The batches of an evaluation: samples of these lengths once each, in the order of the split.
Sampler evaluation_order(const std::vector<int64_t>& lengths, SamplerConfig config);
// The batches of training; `splits` are those of the task. UserError also where valid or test have
// a sample that train.lengths does not hold: an evaluation would meet it when all steps are done.
Sampler training_order(const RunConfig& config, const Splits& splits);

}  // namespace longbow

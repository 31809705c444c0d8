#pragma once
// A run from its config to its results: the weights that it starts from, then its task.
#include "longbow/train/run/trainer.h"

namespace longbow {

// train_from the weights of its pretraining, of the folder in start.from, or random ones. The
// folder is locked. UserError where it holds another run, or files that a run would replace.
Result train(const RunConfig& config, const TrainOptions& options);

}  // namespace longbow

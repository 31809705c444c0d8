#pragma once
// Self-pretraining: the encoder first learns the language of the task's own training data, then the
// task.
#include "longbow/train/run/move.h"
#include "longbow/train/run/trainer.h"

namespace longbow {

// The run that pretrains: the same data, seed and encoder with another objective.
RunConfig pretraining_of(const RunConfig& config);

// Pretrains in the folder pretrain/ of the run, or goes on there, and returns the weights: those of
// the encoder move. None when the run asks for none.
Inheritance pretrain(const RunConfig& config, const TrainOptions& options);

}  // namespace longbow

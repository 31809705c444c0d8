#include "longbow/train/run/train.h"

#include "longbow/core/interruption.h"
#include "longbow/core/lock.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/pretrain.h"
#include "longbow/train/run/start_model.h"

namespace longbow {

Result train(const RunConfig& config, const TrainOptions& options) {
  const InterruptionGuard guard;
  const FolderLock lock(options.out);
  Inheritance weights;
  if (!has_begun(options.out, options.resume)) {
    weights = pretrain(config, options);
    if (weights.weights.empty()) weights = starting_weights(config.start, config.objective);
  }
  return train_from(weights, config, options);
}

}  // namespace longbow

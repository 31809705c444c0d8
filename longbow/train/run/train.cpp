#include "longbow/train/run/train.h"

#include <filesystem>

#include "longbow/core/interruption.h"
#include "longbow/core/lock.h"
#include "longbow/core/run_folder.h"
#include "longbow/train/run/checkpoint.h"
#include "longbow/train/run/pretrain.h"
#include "longbow/train/run/start_model.h"

namespace longbow {
namespace {

// A training replaces files of these names. In the folder of a run they are its own; elsewhere they
// are somebody's config, model or tokenizer.
void check_folder(const RunFolder& folder, const TrainOptions& options) {
  if (folder.is_begun()) {
    if (options.resume) return;
    throw UserError(Place{options.out, 0}, "holds a run already",
                    "continue it with --resume, or choose another --out");
  }
  for (const auto& file :
       {folder.config(), folder.card(), folder.vocabulary(), folder.tokenizer(),
        folder.target_tokenizer(), folder.results(), folder.best(), folder.weights()})
    if (std::filesystem::exists(file))
      throw UserError(Place{file, 0}, "is there already, and is not of a run that could go on",
                      "choose another --out");
}

}  // namespace

Result train(const RunConfig& config, const TrainOptions& options) {
  const InterruptionGuard guard;
  const FolderLock lock(options.out);
  check_folder(RunFolder(options.out), options);
  Inheritance weights;
  if (!has_checkpoint(options.out)) {
    weights = pretrain(config, options);
    if (weights.weights.empty()) weights = starting_weights(config.start, config.objective);
  }
  return train_from(weights, config, options);
}

}  // namespace longbow

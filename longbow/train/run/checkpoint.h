#pragma once
// Where a training stands, on disk: weights, optimiser, and the numbers that say how to go on.
#include <optional>
#include <string>

#include "longbow/data/feed/sampler.h"
#include "longbow/tensors/module_weights.h"
#include "longbow/train/optimizers/schedule.h"

namespace longbow {

struct Progressed {
  int64_t step = 0;
  SamplerPosition position = {};  // of the next batch
  double best = 0;                // validation score of the best weights, once there is one
  int64_t best_step = 0, stale = 0;
  double mark = 0;  // validation score that patience counts from
  Plateau plateau = {};
  double seconds = 0, tokens = 0, peak_bytes = 0;
  std::string data = "";         // checksum of all samples
  bool unevaluated = false;      // an evaluation after this step is still to be made
  int64_t evaluated_step = 0;    // of the last evaluation; 0 = none, or an older version
  std::string best_sha256 = "";  // of best.safetensors
};

// trainer.json of a checkpoint, and checksums of the files beside it.
struct TrainerRecord {
  Progressed progressed = {};
  std::string model_sha256 = "", optimizer_sha256 = "";
};
TrainerRecord parse_trainer(const std::string& text, const std::string& file);

// Which checkpoints stay when another one is saved.
struct Retention {
  int64_t newest = 2;
  int64_t every = 0;  // and those of steps that are multiples of this
  int64_t best = 0;   // and that of this step
};

// checkpoints/<step>/ in a run folder: written beside and renamed, so a checkpoint exists whole or
// not at all. The run's best.safetensors is a part of it, as a hard link.
void save_checkpoint(const std::string& run, const Progressed& progressed, const Tensors& weights,
                     const Tensors& optimizer, const Retention& keep);
struct Checkpoint {
  Progressed progressed;
  Tensors weights, optimizer;
};
bool has_checkpoint(const std::string& run);
// The newest that can be read; a damaged one is named in a warning and passed over. UserError when
// all are damaged.
std::optional<Checkpoint> newest_checkpoint(const std::string& run);

// For a run that goes on from this point: later checkpoints, those that are not to be kept and one
// that was never finished are removed, and best.safetensors becomes that of the checkpoint. False
// when the best weights are not to be had, as in a checkpoint of longbow 0.1.0 that was overtaken.
bool return_to(const std::string& run, const Progressed& progressed, const Retention& keep);

}  // namespace longbow

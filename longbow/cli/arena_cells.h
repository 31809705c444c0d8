#pragma once
// The cells of an arena, each trained by a process of its own: one that crashes or runs out of
// memory takes nothing else down.
#include <functional>
#include <string>
#include <vector>

#include "longbow/arena/plan.h"
#include "longbow/train/run/trainer.h"

namespace longbow::cli {

struct CellOptions {
  std::string out;  // the arena's folder
  std::string device = "cpu", progress = "auto";
  int64_t jobs = 1;  // cells side by side
};

// "[3/10] softmax on recall, seed 2"; the seed where there are several.
std::string label_of(const std::vector<arena::ArenaCell>& cells, size_t cell);

// A result without a score.
Result without_score(const arena::ArenaCell& cell, const std::string& status,
                     const std::string& reason);

// Trains all cells, `jobs` at a time, and gives each result to `done` when it is there, in the
// order in which they end. A finished cell of the same config is read, a broken-off one resumed,
// one of another config replaced; one that cannot do its task is only told. A signal ends them all,
// saved, with Interrupted.
using CellDone = std::function<void(size_t cell, const Result& result)>;
void train_cells(const std::vector<arena::ArenaCell>& cells, const CellOptions& options,
                 const CellDone& done);

// Measures the throughput of cells that were trained beside others, one after the other. False
// where one could not be measured, after a warning; the next call tries it again.
bool measure_alone(const std::vector<arena::ArenaCell>& cells, const CellOptions& options,
                   const CellDone& done);

}  // namespace longbow::cli

#pragma once
// Models of the same size: what a mechanism has in parameters is given back in the feed-forward
// layers.
#include <span>
#include <string>

#include "longbow/arena/plan.h"
#include "longbow/data/samples/dataset.h"

namespace longbow::arena {

// Gives the cells of one task as many parameters as `like` has, within 10 %, by the width of their
// feed-forward layers; each seed has the same. `like` is a cell of that task, which need not be one
// of them, and `splits` are the task's data. A cell that cannot come so near, because its block has
// no such layer or its mechanism alone is too large, is left as near as it gets, with a warning.
// UserError where the model has several stacks.
void match_parameters(std::span<ArenaCell> cells, const ArenaCell& like, const Splits& splits);

}  // namespace longbow::arena

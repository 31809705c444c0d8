#pragma once
#include "longbow/tasks/task.h"

namespace longbow {

// One class a pair of sequences.
Objective pairs_objective();

}  // namespace longbow

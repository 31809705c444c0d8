#pragma once
#include "longbow/tasks/task.h"

namespace longbow {

// One or several values a sequence or a pair of sequences.
Objective regression_objective();

}  // namespace longbow

#pragma once
#include "longbow/tasks/task.h"

namespace longbow {

// One class a sequence, or one a marked token.
Objective classification_objective();

}  // namespace longbow

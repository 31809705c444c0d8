#pragma once
#include "longbow/tasks/task.h"

namespace longbow {

// One class a text, or one a marked character, by CANINE: tokens are code points.
Objective characters_objective();

}  // namespace longbow

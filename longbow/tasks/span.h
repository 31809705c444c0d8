#pragma once
#include "longbow/tasks/task.h"

namespace longbow {

// Where an answer starts and ends.
Objective span_objective();

}  // namespace longbow

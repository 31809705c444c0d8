#pragma once
#include "longbow/models/decoding.h"
#include "longbow/tasks/task.h"

namespace longbow {

// A target sequence for every source.
Objective translation_objective();

// Of a task with that objective: the sources of a batch, decoded as the config says or as given.
Decoded translate(Task& task, const Batch& batch, const Random& random = {});
Decoded translate(Task& task, const Batch& batch, const DecodingConfig& decoding,
                  const Random& random = {});

}  // namespace longbow

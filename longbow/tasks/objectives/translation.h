#pragma once
#include "longbow/models/decoder/decoding.h"
#include "longbow/tasks/task.h"

namespace longbow {

// Of a task with objective translation: the sources of a batch, decoded as the config says or as
// given.
Decoded translate(Task& task, const Batch& batch, const Random& random = {});
Decoded translate(Task& task, const Batch& batch, const DecodingConfig& decoding,
                  const Random& random = {});

}  // namespace longbow

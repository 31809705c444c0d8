#pragma once
#include <string>

#include "longbow/core/config.h"
#include "longbow/train/run/checkpoint.h"

namespace longbow {

// A resumed run may be longer, have another learning rate, evaluate and save at other times, use
// other threads or find its data in another folder, but it must learn the same thing from the same
// batches with the same model, optimiser and precision. `now` is the resolved config, `file` the
// config.yaml of the run and `data` the checksum of the samples. UserError for what differs.
void check_same_run(Node now, const std::string& file, const Progressed& saved,
                    const std::string& data);

}  // namespace longbow

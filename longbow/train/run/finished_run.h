#pragma once
#include "longbow/core/run_folder.h"
#include "longbow/train/run/run_task.h"

namespace longbow {

struct FinishedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
};
// The config, the data and the weights of a finished run, to evaluate again. UserError when the
// folder holds none, or when its data is gone.
FinishedRun open_run(const std::string& folder, at::Device device);
// The same with data that the caller has, which may be without samples.
FinishedRun open_run(const RunFolder& folder, RunConfig config, const Splits& splits,
                     at::Device device);

}  // namespace longbow

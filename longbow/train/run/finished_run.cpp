#include "longbow/train/run/finished_run.h"

#include "longbow/tensors/safetensors.h"

namespace longbow {

FinishedRun open_run(const std::string& folder, at::Device device) {
  const RunFolder files(folder);
  files.check_run();
  files.check_weights();
  const auto tree = load_config(files.config());
  auto config = read_model_config(tree);
  check_data_path(tree, "without its samples a run only answers to texts");
  const auto splits = load_splits(config);
  return open_run(files, std::move(config), splits, device);
}

FinishedRun open_run(const RunFolder& folder, RunConfig config, const Splits& splits,
                     at::Device device) {
  FinishedRun run = {.config = std::move(config), .task = {}};
  run.task = make_task(run.config, splits, device);
  load_weights(run.task->model(), load_safetensors(folder.weights()).tensors, folder.weights());
  return run;
}

}  // namespace longbow

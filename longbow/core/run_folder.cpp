#include "longbow/core/run_folder.h"

#include "longbow/core/error.h"

namespace fs = std::filesystem;

namespace longbow {

std::string RunFolder::checkpoint(int64_t step) const {
  return (path_ / "checkpoints" / std::to_string(step)).string();
}

std::string RunFolder::draft() const {
  return (path_ / "checkpoints" / "draft").string();
}

bool RunFolder::is_run() const {
  return fs::exists(config());
}

bool RunFolder::is_begun() const {
  return fs::exists(metrics()) || fs::exists(checkpoints()) || fs::exists(pretraining().path());
}

bool RunFolder::has_weights() const {
  return fs::exists(weights());
}

void RunFolder::check_run() const {
  if (!is_run())
    throw UserError(Place{path(), 0}, "is not a run folder: config.yaml is missing",
                    "`longbow train` prints the folder it fills");
}

void RunFolder::check_weights() const {
  if (!has_weights())
    throw UserError(Place{path(), 0}, "holds no finished run: model.safetensors is missing",
                    "finish it with `longbow train --resume`");
}

}  // namespace longbow

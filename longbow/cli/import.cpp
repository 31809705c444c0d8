#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include "longbow/cli/commands.h"
#include "longbow/core/run_folder.h"
#include "longbow/models/bert/bert_folder.h"
#include "longbow/train/run/export_run.h"

namespace longbow::cli {

int run(const ImportCommand& command) {
  const auto attention =
      command.attention.empty() ? Node() : parse_yaml(command.attention, Place{"--attention", 0});
  const auto bert = import_bert(command.folder, attention, static_cast<uint64_t>(command.seed));
  save_bert(bert, command.folder, command.out);
  fmt::print("kept {} tensors\n", bert.kept);
  for (const auto& name : bert.left_out) fmt::print("left out {}\n", name);
  for (const auto& name : bert.anew)
    fmt::print("initialised {} {}\n", name, c10::str(bert.weights.at(name).sizes()));
  fmt::print("{}\n", command.out);
  return 0;
}

int run(const ExportCommand& command) {
  if (RunFolder(command.folder).is_run())
    export_run(command.folder, command.out, command.max_shard_bytes);
  else
    export_bert(command.folder, command.out, command.max_shard_bytes);
  fmt::print("{}\n", command.out);
  return 0;
}

}  // namespace longbow::cli

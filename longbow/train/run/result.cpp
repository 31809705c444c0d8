#include "longbow/train/run/result.h"

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/run_folder.h"

namespace longbow {

Result read_result(const std::string& folder) {
  const auto file = RunFolder(folder).results();
  return read<Result>(parse_json(read_file(file), file));
}

void write_result(const Result& result, const std::string& folder) {
  write_file(RunFolder(folder).results(), to_json(written(result), 2) + "\n");
}

}  // namespace longbow

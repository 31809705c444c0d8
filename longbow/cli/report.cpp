#include "longbow/report/report.h"

#include <fmt/format.h>

#include <filesystem>

#include "longbow/cli/commands.h"
#include "longbow/core/file.h"

namespace longbow::cli {

int run(const ReportCommand& command) {
  const auto record = load_record(command.folder);
  namespace fs = std::filesystem;
  const fs::path source(command.folder);
  const fs::path folder = !command.out.empty()       ? fs::path(command.out)
                          : fs::is_directory(source) ? source
                                                     : source.parent_path();
  if (!folder.empty()) fs::create_directories(folder);
  write_file((folder / "table.md").string(), to_markdown(record));
  write_file((folder / "table.csv").string(), to_csv(record));
  write_file((folder / "report.html").string(), to_html(record));
  fmt::print("{}\n", (folder / "report.html").string());
  return 0;
}

}  // namespace longbow::cli

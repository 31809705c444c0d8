#include "longbow/report/write/report.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "longbow/cli/commands.h"
#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"

namespace longbow::cli {

int run(const ReportCommand& command) {
  const auto record = load_record(command.folder);
  namespace fs = std::filesystem;
  const fs::path source(command.folder);
  const fs::path folder = !command.out.empty()       ? fs::path(command.out)
                          : fs::is_directory(source) ? source
                                                     : source.parent_path();
  const std::vector<std::pair<std::string, std::string>> files = {
      {(folder / "table.md").string(), to_markdown(record)},
      {(folder / "table.csv").string(), to_csv(record)},
      {(folder / "report.html").string(), to_html(record)}};
  const bool its_own = command.out.empty() && fs::is_directory(source);  // of an earlier report
  if (!its_own && !command.force)
    for (const auto& [file, text] : files)
      if (fs::exists(file))
        throw UserError(Place{file, 0}, "is there already",
                        "give another folder with --out, or --force to replace it");
  if (!folder.empty()) make_folder(folder.string());
  for (const auto& [file, text] : files) write_file(file, text);
  fmt::print("{}\n", (folder / "report.html").string());
  return 0;
}

}  // namespace longbow::cli

#include "longbow/cli/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longbow/cli/text_input.h"

namespace longbow::cli {
namespace {

LineFile read_lines(const std::string& path) {
  auto text = open_text(path);
  LineFile file{text.name(), {}};
  for (std::string line; text.line(line);) file.lines.push_back(line);
  if (file.lines.empty()) throw UserError(Place{file.name, 0}, "is empty", "give one text a line");
  return file;
}

}  // namespace

std::vector<LineFile> read_aligned(const std::vector<std::string>& paths) {
  if (std::ranges::count(paths, "-") > 1)
    throw UserError("- is given twice", "stdin can be read once");
  std::vector<LineFile> files;
  for (const auto& path : paths) {
    files.push_back(read_lines(path));
    const auto &first = files.front(), &last = files.back();
    if (last.lines.size() != first.lines.size())
      throw UserError(
          Place{last.name, 0},
          fmt::format("{} lines, but {} has {}", last.lines.size(), first.name, first.lines.size()),
          "line N of one file belongs to line N of the other");
  }
  return files;
}

Node number_or_null(double value) {
  return std::isfinite(value) ? Node::number(value) : Node{};
}

Node numbers(const std::vector<double>& values) {
  Node list = Node::list();
  for (const double value : values) list.items.push_back(number_or_null(value));
  return list;
}

}  // namespace longbow::cli

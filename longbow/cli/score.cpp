#include "longbow/cli/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "longbow/core/file.h"
#include "longbow/core/utf8.h"

namespace longbow::cli {
namespace {

LineFile read_lines(const std::string& path) {
  LineFile file{path == "-" ? "stdin" : path, {}};
  const auto text =
      path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
  if (const auto broken = find_invalid_utf8(text); broken != std::string::npos) {
    const auto before = text.begin() + static_cast<std::ptrdiff_t>(broken);
    throw UserError(Place{file.name, 1 + static_cast<int>(std::count(text.begin(), before, '\n'))},
                    "is not UTF-8", "convert the file");
  }
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    file.lines.push_back(text.substr(at, end - at));
    if (file.lines.back().ends_with('\r')) file.lines.back().pop_back();
    at = end + 1;
  }
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

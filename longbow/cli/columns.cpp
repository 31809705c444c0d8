#include "longbow/cli/columns.h"

#include <algorithm>
#include <sstream>

#include "longbow/core/columns.h"

namespace longbow::cli {
namespace {

constexpr size_t kColumns = 100;

std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (!lines.empty() && columns_of(lines.back()) + 1 + columns_of(word) <= columns)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  return lines;
}

}  // namespace

std::string two_columns(const NamedRows& rows, const std::string& mark) {
  size_t width = 0;
  for (const auto& [name, said] : rows) width = std::max(width, columns_of(name));
  std::string text;
  for (const auto& [name, said] : rows) {
    const auto lines = wrapped(said, kColumns - std::min(kColumns, width + 2 + mark.size()));
    if (lines.empty()) text += name + "\n";
    for (size_t i = 0; i < lines.size(); ++i)
      text += padded(i == 0 ? name : "", width) + "  " + mark + lines[i] + "\n";
  }
  return text;
}

}  // namespace longbow::cli

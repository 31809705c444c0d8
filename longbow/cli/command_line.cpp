#include "longbow/cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace longbow::cli {
namespace {

bool is_plain(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./=,:+%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_line(const std::vector<std::string>& words) {
  std::string line = "longbow";
  for (const auto& word : words) line += " " + (is_plain(word) ? word : quoted(word));
  return line;
}

}  // namespace longbow::cli

#include "longbow/data/readers/tsv.h"

#include <fmt/format.h>

#include <charconv>

#include "longbow/core/error.h"

namespace longbow {
namespace {

constexpr std::string_view kHeader = "Source\tTarget";

struct Line {
  std::string_view text;
  bool ended;  // by a line feed
};

Line take_line(std::string_view& rest) {
  auto end = rest.find('\n');
  bool ended = end != std::string_view::npos;
  auto text = rest.substr(0, end);
  rest.remove_prefix(ended ? end + 1 : rest.size());
  if (text.ends_with('\r')) text.remove_suffix(1);
  return {text, ended};
}

TsvRow parse_row(const Line& line, const Place& place) {
  auto tab = line.text.find('\t');
  if (tab == std::string_view::npos)
    throw UserError(
        place,
        line.text.empty() ? "empty line" : "one column, expected two with a tab between them",
        line.ended ? "" : "the file seems cut off here");
  auto target = line.text.substr(tab + 1);
  if (target.find('\t') != std::string_view::npos) throw UserError(place, "more than two columns");
  if (target.empty() && !line.ended)
    throw UserError(place, "the second column is empty", "the file seems cut off here");
  return {line.text.substr(0, tab), target, place.line};
}

}  // namespace

std::vector<TsvRow> parse_table(const std::string& contents, const std::string& path) {
  std::string_view rest = contents;
  auto header = take_line(rest);
  if (header.text != kHeader)
    throw UserError(Place{path, 1}, fmt::format("the header is {}", excerpt(header.text)),
                    "expected Source<TAB>Target");
  std::vector<TsvRow> rows;
  int line = 2;
  for (; !rest.empty(); ++line) rows.push_back(parse_row(take_line(rest), {path, line}));
  if (rows.empty()) throw UserError(Place{path, line}, "no samples", "the file seems cut off here");
  return rows;
}

std::vector<int32_t> parse_ids(std::string_view text, const Place& place) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    int32_t id = 0;
    auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure != std::errc() || end != word.data() + word.size())
      throw UserError(place, fmt::format("{} is not an id", excerpt(word)),
                      "expected whole numbers with one blank between them");
    ids.push_back(id);
    text.remove_prefix(word.size());
    if (text == " ") throw UserError(place, "a blank at the end of a column");
    if (!text.empty()) text.remove_prefix(1);
  }
  return ids;
}

std::string excerpt(std::string_view text) {
  constexpr size_t kMost = 32;
  std::string result = "'";
  for (auto byte : text.substr(0, kMost)) {
    auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20 && code < 0x7f)
      result += byte;
    else
      result += fmt::format("\\x{:02x}", code);
  }
  return result + (text.size() > kMost ? "…'" : "'");
}

}  // namespace longbow

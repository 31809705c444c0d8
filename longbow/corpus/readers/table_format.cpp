#include "longbow/corpus/readers/table_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>

namespace longbow::corpus {
namespace {

std::string lower_name(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view packed : {".gz", ".xz"})
    if (name.ends_with(packed)) name.resize(name.size() - packed.size());
  return name;
}

// The first two characters that are not blank.
std::pair<char, char> opening(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  const auto second = text.find_first_not_of(kBlanks, first + 1);
  return {text[first], second == std::string_view::npos ? '\0' : text[second]};
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

char character_of(Separator separator, TableFormat format, std::string_view text) {
  switch (separator) {
    case Separator::comma:
      return ',';
    case Separator::semicolon:
      return ';';
    case Separator::tab:
      return '\t';
    default:
      return format == TableFormat::tsv ? '\t' : separator_in(text);
  }
}

}  // namespace

TableFormat format_of(const std::string& name, std::string_view text) {
  const auto lower = lower_name(name);
  const auto ends = [&](std::string_view end) { return lower.ends_with(end); };
  if (ends(".csv")) return TableFormat::csv;
  if (ends(".tsv") || ends(".tab")) return TableFormat::tsv;
  if (ends(".jsonl") || ends(".ndjson")) return TableFormat::jsonl;
  const auto [first, second] = opening(text);
  const bool is_list = first == '[' && (second == '{' || second == ']' || ends(".json"));
  if (is_list) return TableFormat::json;
  const bool is_object = first == '{' && (second == '"' || second == '}');
  if (is_object || ends(".json")) return TableFormat::jsonl;
  return first_line(text).find('\t') != std::string_view::npos ? TableFormat::tsv
                                                               : TableFormat::csv;
}

char separator_in(std::string_view text) {
  constexpr std::string_view kSeparators = ",;\t";
  std::array<int64_t, kSeparators.size()> counts = {};
  bool quoted = false;
  for (const char c : first_line(text)) {
    quoted ^= c == '"';
    const auto index = kSeparators.find(c);
    if (!quoted && index != std::string_view::npos) ++counts[index];
  }
  const auto most = std::max_element(counts.begin(), counts.end());  // the first of equal ones
  return kSeparators[static_cast<size_t>(most - counts.begin())];
}

std::unique_ptr<Rows> open_rows(TextFile& file, const TableOptions& options,
                                const std::vector<std::string>& wanted) {
  const auto text = file.peek();
  const auto format =
      options.format == TableFormat::automatic ? format_of(file.name(), text) : options.format;
  if (format == TableFormat::json || format == TableFormat::jsonl)
    return json_rows(file, {.lines = format == TableFormat::jsonl}, wanted);
  const bool quotes = options.quotes == Quotes::automatic ? format == TableFormat::csv
                                                          : options.quotes == Quotes::doubled;
  return delimited_rows(file,
                        {.separator = character_of(options.separator, format, text),
                         .quotes = quotes,
                         .header = options.header},
                        wanted);
}

}  // namespace longbow::corpus

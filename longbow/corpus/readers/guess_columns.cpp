#include "longbow/corpus/readers/guess_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <set>

#include "longbow/core/error.h"
#include "longbow/corpus/readers/number.h"
#include "longbow/corpus/readers/table_format.h"

namespace longbow::corpus {
namespace {

constexpr int64_t kRows = 1000;  // that are looked at
constexpr size_t kMostClasses = 100;

struct Column {
  std::string name;
  int64_t rows = 0, numbers = 0, fractions = 0;
  double characters = 0;
  std::set<std::string> values = {};

  void add(std::string_view text) {
    ++rows;
    characters += static_cast<double>(text.size());
    if (const auto number = parse_number(text)) {
      ++numbers;
      if (*number != static_cast<double>(static_cast<int64_t>(*number))) ++fractions;
    }
    if (values.size() <= kMostClasses) values.emplace(text);
  }
  double length() const { return rows > 0 ? characters / static_cast<double>(rows) : 0; }
  bool is_number() const { return rows > 0 && numbers == rows; }
  bool repeats() const {
    return values.size() > 1 && values.size() <= kMostClasses &&
           2 * static_cast<int64_t>(values.size()) <= rows;
  }
};

std::vector<Column> columns_of(const std::string& path) {
  std::vector<std::string> names;
  {
    TextFile file(path);
    std::vector<Cell> cells;
    const auto rows = open_rows(file, {}, {});
    (void)rows->next(cells);
    names = rows->known();
  }
  std::vector<Column> columns;
  for (const auto& name : names) columns.push_back({.name = name});
  TextFile file(path);
  const auto rows = open_rows(file, {}, names);
  std::vector<Cell> cells;
  for (int64_t row = 0; row < kRows && rows->next(cells); ++row)
    for (size_t i = 0; i < columns.size(); ++i)
      if (!cells[i].text.empty()) columns[i].add(cells[i].text);
  return columns;
}

// The column with the first of these names that there is, case aside.
const Column* named(const std::vector<Column>& columns, std::initializer_list<const char*> names) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  for (const auto* name : names)
    for (const auto& column : columns)
      if (lower(column.name) == name) return &column;
  return nullptr;
}

const Column* longest(const std::vector<Column>& columns, const Column* but) {
  const Column* best = nullptr;
  for (const auto& column : columns)
    if (&column != but && !column.is_number() && (!best || column.length() > best->length()))
      best = &column;
  return best;
}

const Column* answer(const std::vector<Column>& columns) {
  if (const auto* known = named(
          columns, {"label", "labels", "gold_label", "class", "category", "target", "sentiment",
                    "topic", "intent", "score", "rating", "stars", "similarity"}))
    return known;
  const Column* fewest = nullptr;
  for (const auto& column : columns)
    if (column.repeats() && (!fewest || column.values.size() < fewest->values.size()))
      fewest = &column;
  if (fewest) return fewest;
  const auto number = std::find_if(columns.begin(), columns.end(), [](const Column& column) {
    return column.is_number() && column.fractions > 0;
  });
  return number == columns.end() ? nullptr : &*number;
}

}  // namespace

TableOptions guess_columns(const std::string& path) {
  const auto columns = columns_of(path);
  const auto* said = answer(columns);
  const Column* first = named(columns, {"text", "sentence1", "premise", "sentence", "title",
                                        "document", "review", "content", "body", "question1"});
  const Column* second = named(columns, {"sentence2", "hypothesis", "question2", "second"});
  if (!first) first = longest(columns, said);
  if (!first || !said || first == said) {
    std::vector<std::string> names;
    for (const auto& column : columns) names.push_back(column.name);
    throw UserError(Place{path, 1},
                    fmt::format("which of {} is the {}?", fmt::join(names, ", "),
                                first && first != said ? "class" : "text"),
                    "write a config by hand: longbow init table");
  }
  TableOptions options;
  options.text = first->name;
  if (second && second != first && second != said) options.second = second->name;
  const bool value = said->is_number() && said->fractions > 0;
  options.label = value ? "" : said->name;
  options.value = value ? said->name : "";
  return options;
}

}  // namespace longbow::corpus

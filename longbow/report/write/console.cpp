#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/columns.h"
#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/grid.h"
#include "longbow/report/table/number.h"
#include "longbow/report/table/table.h"
#include "longbow/report/write/report.h"

namespace longbow {
namespace {

using namespace reporting;

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string arena_text(const Table& table) {
  auto grid = overview_grid(table);
  auto result = console_grid(grid) + "\n";
  for (auto& task : table.tasks)
    result += fmt::format("{}: {}\n", task, scoring_sentence(table, task));
  if (table.tasks.size() > 1) result += grid.note + "\n";
  for (auto& failure : table.failures)
    result += fmt::format("{} on {}, seed {}: {}: {}\n", failure.mechanism, failure.task,
                          failure.seed, failure.status, on_one_line(failure.reason));
  return result;
}

}  // namespace

std::string reporting::console_grid(const Grid& grid) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < grid.columns.size(); ++i) {
    widths.push_back(columns_of(grid.columns[i]));
    for (auto& row : grid.rows) widths[i] = std::max(widths[i], columns_of(row[i].text));
  }
  auto line = [&](auto text_at) {
    std::string result;
    for (size_t i = 0; i < widths.size(); ++i) {
      auto text = text_at(i);
      auto left = i < grid.text_columns;
      auto space = std::string(widths[i] - columns_of(text), ' ');
      result += (i ? "  " : "") + (left ? text + space : space + text);
    }
    return result.erase(result.find_last_not_of(' ') + 1) + "\n";
  };
  auto result = line([&](size_t i) { return grid.columns[i]; });
  result += line([&](size_t i) { return std::string(widths[i], '-'); });
  for (auto& row : grid.rows) result += line([&](size_t i) { return row[i].text; });
  return result;
}

std::string console_table(const Record& record) {
  if (record.cells.empty() && record.benchmarks.empty()) return "Nothing has been scored yet.\n";
  std::string result;
  if (!record.cells.empty()) result += arena_text(summarize(record));
  for (auto& grid : bench_grids(record))
    result += fmt::format("{}{}\n{}", result.empty() ? "" : "\n", grid.title, console_grid(grid));
  return result;
}

}  // namespace longbow

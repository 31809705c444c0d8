#include <fmt/format.h>

#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/grid.h"
#include "longbow/report/table/table.h"
#include "longbow/report/write/heading.h"
#include "longbow/report/write/report.h"

namespace longbow {
namespace {

using namespace reporting;

std::string escaped(const std::string& text) {
  std::string result;
  for (auto c : text) {
    if (c == '\n' || c == '\r') {
      result += ' ';
      continue;
    }
    if (c == '<') {
      result += "&lt;";
      continue;
    }
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '[') result += '\\';
    result += c;
  }
  return result;
}

std::string cell_text(const GridCell& cell) {
  auto text = escaped(cell.text);
  return cell.tone == Tone::best ? "**" + text + "**" : text;
}

std::string grid_text(const Grid& grid) {
  std::string result = fmt::format("## {}\n\n", escaped(grid.title));
  if (!grid.note.empty()) result += escaped(grid.note) + "\n\n";
  std::string rule = "|";
  result += "|";
  for (size_t i = 0; i < grid.columns.size(); ++i) {
    result += fmt::format(" {} |", escaped(grid.columns[i]));
    rule += i < grid.text_columns ? "---|" : "---:|";
  }
  result += "\n" + rule + "\n";
  for (auto& row : grid.rows) {
    result += "|";
    for (auto& cell : row) result += fmt::format(" {} |", cell_text(cell));
    result += "\n";
  }
  return result + "\n";
}

std::string arena_text(const Table& table) {
  auto overview = overview_grid(table);
  std::string result = grid_text(overview);
  if (auto states = state_sentence(overview); !states.empty()) result += states + "\n\n";
  if (table.tasks.size() == 1) result += scoring_sentence(table, table.tasks.front()) + "\n\n";
  if (table.tasks.size() > 1)
    for (auto& task : table.tasks) result += grid_text(task_grid(table, task));
  if (!table.failures.empty()) result += grid_text(failure_grid(table));
  return result;
}

}  // namespace

std::string to_markdown(const Record& record) {
  auto result = fmt::format("# {}\n\n{}\n\n", escaped(record.title), escaped(heading_line(record)));
  if (!record.context.empty()) {
    result += "| | |\n|---|---|\n";
    for (auto& [key, value] : record.context)
      result += fmt::format("| {} | {} |\n", escaped(key), escaped(value));
    result += "\n";
  }
  if (record.cells.empty() && record.benchmarks.empty())
    result += "Nothing has been scored yet.\n\n";
  if (!record.cells.empty()) result += arena_text(summarize(record));
  for (auto& grid : bench_grids(record)) result += grid_text(grid);
  for (auto& note : record.notes) result += fmt::format("> {}\n", escaped(note));
  while (result.ends_with("\n\n")) result.pop_back();
  return result;
}

}  // namespace longbow

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "longbow/report/draw/figures.h"
#include "longbow/report/draw/svg.h"
#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/grid.h"
#include "longbow/report/table/number.h"
#include "longbow/report/table/table.h"
#include "longbow/report/write/heading.h"
#include "longbow/report/write/page.h"
#include "longbow/report/write/report.h"

namespace longbow {
namespace {

using namespace reporting;

std::string tag(const std::string& name, const std::string& words) {
  return fmt::format("<{0}>{1}</{0}>\n", name, escaped(words));
}

// What became of a cell without a score has a sign and a frame of its own, besides its colour.
std::string words_html(const GridCell& cell) {
  constexpr std::array kStates = {"pending", "refused", "failed", "oom"};
  if (cell.tone < Tone::pending) return escaped(cell.text);
  return fmt::format(
      R"(<span class="state {}">{}</span>)",
      kStates.at(static_cast<size_t>(cell.tone) - static_cast<size_t>(Tone::pending)),
      escaped(cell.text));
}

std::string cell_html(const Grid& grid, const GridCell& cell, size_t column) {
  std::string classes = cell.tone == Tone::best ? "best" : cell.tone == Tone::muted ? "muted" : "";
  if (column < grid.text_columns)
    classes += grid.columns[column] == "reason" ? " name reason" : " name";
  auto sort_key = cell.value                   ? exact_text(*cell.value)
                  : column < grid.text_columns ? cell.text
                                               : "";
  auto name = column < grid.text_columns && column > 0
                  ? fmt::format(R"( data-name="{}")", escaped(grid.columns[column]))
                  : "";
  auto hint = cell.hint.empty() ? "" : fmt::format(R"( title="{}")", escaped(cell.hint));
  return fmt::format(R"(<td class="{}" data-value="{}"{}{}>{}</td>)", classes, escaped(sort_key),
                     name, hint, words_html(cell));
}

std::string grid_html(const Grid& grid, const std::string& kind = "") {
  auto result = fmt::format(R"(<div class="scroll"><table class="sortable{}"><thead><tr>)", kind);
  for (size_t i = 0; i < grid.columns.size(); ++i)
    result += fmt::format(R"(<th scope="col" class="{}">{}</th>)",
                          i < grid.text_columns ? "name" : "", escaped(grid.columns[i]));
  result += "</tr></thead><tbody>\n";
  for (auto& row : grid.rows) {
    result += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) result += cell_html(grid, row[i], i);
    result += "</tr>\n";
  }
  return result + "</tbody></table></div>\n";
}

std::string note_html(const std::string& note) {
  return note.empty() ? "" : fmt::format("<p class=\"soft\">{}</p>\n", escaped(note));
}

std::string states_html(const Grid& grid) {
  std::string result;
  for (auto& state : states_of(grid))
    result += fmt::format("<span>{} {}</span> ", words_html(state), escaped(state.hint));
  return result.empty() ? "" : "<p class=\"states\">" + result + "</p>\n";
}

std::string titled_grid(const Grid& grid, const std::string& heading) {
  return tag(heading, grid.title) + note_html(grid.note) + grid_html(grid) + states_html(grid);
}

// The signs of a table of failures are those of the tables above, which explain them.
std::string reasons_html(const Grid& grid) {
  return tag("h2", grid.title) + note_html(grid.note) + grid_html(grid, " reasons");
}

// Both forms of a figure; the style sheet shows the one that fits the screen.
template <class Draw>
std::string figure_html(Draw draw, const std::string& caption, const std::string& more,
                        const std::string& size = "small") {
  auto wide = draw(Width::wide);
  if (wide.empty()) return "";
  return fmt::format(
      "<figure class=\"{}\"><figcaption>{} <span>{}</span></figcaption>{}{}</figure>\n", size,
      escaped(caption), escaped(more), wide, draw(Width::narrow));
}

std::string figures_html(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"figures\">\n" + figures + "</div>\n";
}

std::string card_html(const Record& record) {
  if (record.context.empty()) return "";
  std::string result = "<dl class=\"card\">\n";
  for (auto& [key, value] : record.context)
    result += fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n",
                          key == "command" || value.size() > 60 ? " class=\"wide\"" : "",
                          escaped(key), escaped(value));
  return result + "</dl>\n";
}

// What is learnt stands first; how the training went can be unfolded where mechanisms are compared.
std::string curves_html(const Record& record, const std::string& task, const Looks& looks) {
  constexpr std::array<std::string_view, 3> kConditions = {"learning_rate", "gradient_norm",
                                                           "tokens_per_second"};
  std::string first, others;
  for (auto& quantity : quantities(record, task)) {
    auto figure =
        figure_html([&](Width width) { return curve_figure(record, task, quantity, looks, width); },
                    quantity_label(quantity), "over steps");
    auto condition = std::find(kConditions.begin(), kConditions.end(), quantity);
    (condition == kConditions.end() ? first : others) += figure;
  }
  auto result = figures_html(first);
  if (!others.empty())
    result += fmt::format("<details{}><summary>More curves</summary>\n{}</details>\n",
                          record.cells.size() < 2 ? " open" : "", figures_html(others));
  return result;
}

std::string not_drawn(const Table& table, const std::string& task) {
  std::vector<std::string> names;
  for (auto& mechanism : table.mechanisms) {
    auto& summary = table.at(mechanism, task);
    if (summary.seeds > 0 && !summary.score)
      names.push_back(mechanism + " (" + summary.status + ")");
  }
  return names.empty() ? "" : fmt::format("Not drawn: {}.", fmt::join(names, ", "));
}

std::string task_html(const Record& record, const Table& table, const std::string& task,
                      const Looks& looks) {
  auto result = tag("h2", task) + note_html(scoring_sentence(table, task));
  if (table.tasks.size() > 1) result += grid_html(task_grid(table, task));
  auto better = table.measure(task).larger_is_better ? "higher" : "lower";
  auto score = figure_html(
      [&](Width width) { return score_figure(table, task, looks, width); }, "Score, speed, memory",
      fmt::format("{} and further right is better; bars are one standard deviation over seeds",
                  better),
      "large");
  if (!score.empty()) result += score + note_html(not_drawn(table, task));
  return result + curves_html(record, task, looks);
}

std::string arena_html(const Record& record, const Looks& looks) {
  auto table = summarize(record);
  auto result = titled_grid(overview_grid(table), "h2");
  for (auto& task : table.tasks) result += task_html(record, table, task, looks);
  for (auto& task : curve_tasks(record))
    if (std::find(table.tasks.begin(), table.tasks.end(), task) == table.tasks.end())
      result += tag("h2", task) + curves_html(record, task, looks);
  if (!table.failures.empty()) result += reasons_html(failure_grid(table));
  return result;
}

std::string bench_html(const Record& record, const Looks& looks) {
  std::string result;
  if (!record.growth.empty()) result += titled_grid(growth_grid(record), "h2");
  for (auto& mode : bench_modes(record)) {
    result += tag("h2", mode);
    result += figures_html(
        figure_html([&](Width width) { return time_figure(record, mode, looks, width); }, "Time",
                    "bold: fused softmax; a ring: a mechanism overtakes it") +
        figure_html([&](Width width) { return memory_figure(record, mode, looks, width); },
                    "Memory", "peak of one call"));
    auto grids = mode_grids(record, mode);
    for (auto& grid : grids)
      result += tag("h3", grid.title) + note_html(grid.note) + grid_html(grid);
    result += states_html(grids.front());
  }
  auto failures = bench_failure_grid(record);
  if (!failures.rows.empty()) result += reasons_html(failures);
  return result;
}

// A line breaks between the parts rather than in a date.
std::string byline_html(const Record& record) {
  std::vector<std::string> parts;
  for (auto& part : heading_parts(record)) parts.push_back("<span>" + escaped(part) + "</span>");
  return fmt::format("<p class=\"byline\">{}</p>\n", fmt::join(parts, " · "));
}

std::string body_html(const Record& record) {
  auto looks = looks_of(record);
  auto result = tag("h1", record.title) + byline_html(record) + card_html(record);
  if (record.cells.empty() && record.benchmarks.empty())
    result += note_html("Nothing has been scored yet.");
  if (!record.cells.empty()) result += arena_html(record, looks);
  if (record.cells.empty())
    for (auto& task : curve_tasks(record))
      result += tag("h2", task) + curves_html(record, task, looks);
  if (!record.benchmarks.empty()) result += bench_html(record, looks);
  if (!record.notes.empty()) result += tag("h2", "Notes");
  for (auto& note : record.notes) result += note_html(note);
  if (!record.config.empty())
    result +=
        "<details><summary>Config</summary><pre>" + escaped(record.config) + "</pre></details>\n";
  return result;
}

}  // namespace

std::string to_html(const Record& record) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}"
      "<footer>The same numbers are written as Markdown and "
      "CSV.</footer>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      escaped(record.title), page_style(), body_html(record), page_script());
}

}  // namespace longbow

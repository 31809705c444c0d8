#include "longbow/report/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longbow/core/error.h"

namespace longbow::reporting {
namespace {

void add_unique(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool may_have_score(const Cell& cell) {
  return cell.status == "ok" || is_for_comparison(cell.status);
}

bool succeeded(const Cell& cell) {
  return cell.score && may_have_score(cell);
}

std::string outcome(const Cell& cell) {
  return may_have_score(cell) ? "no score" : cell.status;
}

std::optional<Statistic> gathered(const std::vector<const Cell*>& cells,
                                  std::optional<double> Cell::*field) {
  std::vector<double> values;
  for (auto cell : cells)
    if (cell->*field) values.push_back(*(cell->*field));
  return statistic(values);
}

Summary summary_of(const std::string& mechanism, const std::string& task,
                   const std::vector<Cell>& cells) {
  Summary summary{.mechanism = mechanism, .task = task};
  std::vector<const Cell*> tried, good;
  for (auto& cell : cells) {
    if (cell.mechanism != mechanism || cell.task != task) continue;
    tried.push_back(&cell);
    if (!succeeded(cell)) {
      if (good.empty() && (cell.status != "pending" || summary.status == "not run"))
        summary.status = outcome(cell);
      if (good.empty() && !cell.metric.empty()) summary.measure = measure_of(cell);
      continue;
    }
    good.push_back(&cell);
    summary.status = cell.status;
    summary.measure = measure_of(cell);
    summary.sites = cell.sites;
    summary.split = cell.split;
    summary.chosen_by = cell.chosen_by;
    if (cell.status == "published") summary.citation = cell.reason;
  }
  summary.seeds = static_cast<int64_t>(tried.size());
  summary.score = gathered(good, &Cell::score);
  if (summary.score) {
    summary.score->mean = summary.measure.shown(summary.score->mean);
    summary.score->deviation = summary.measure.shown(summary.score->deviation);
  }
  summary.tokens_per_second = gathered(good, &Cell::tokens_per_second);
  summary.peak_bytes = gathered(good, &Cell::peak_bytes);
  summary.parameters = gathered(tried, &Cell::parameters);
  summary.seconds = gathered(good, &Cell::seconds);
  return summary;
}

void refuse_mixed_metrics(const std::vector<Cell>& cells) {
  for (auto& cell : cells) {
    if (!succeeded(cell)) continue;
    for (auto& other : cells)
      if (succeeded(other) && other.task == cell.task && other.metric != cell.metric)
        throw UserError(fmt::format("task '{}' is scored by '{}' and by '{}'", cell.task,
                                    cell.metric, other.metric),
                        "one table needs one metric per task");
  }
}

}  // namespace

std::optional<Statistic> statistic(const std::vector<double>& values) {
  if (values.empty()) return {};
  auto count = static_cast<double>(values.size());
  auto mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (auto value : values) squares += (value - mean) * (value - mean);
  return Statistic{.mean = mean,
                   .deviation = count > 1 ? std::sqrt(squares / (count - 1)) : 0,
                   .count = static_cast<int64_t>(values.size())};
}

std::string Summary::text() const {
  if (!score) return status;
  auto result = measure.text(score->mean);
  if (score->count > 1) result += " ± " + measure.text(score->deviation);
  if (score->count < seeds) result += fmt::format(" ({}/{} seeds)", score->count, seeds);
  return result;
}

const Summary& Table::at(const std::string& mechanism, const std::string& task) const {
  for (auto& summary : summaries)
    if (summary.mechanism == mechanism && summary.task == task) return summary;
  throw UserError(fmt::format("no cell of '{}' on '{}'", mechanism, task));
}

Measure Table::measure(const std::string& task) const {
  for (auto& summary : summaries)
    if (summary.task == task && summary.score) return summary.measure;
  for (auto& summary : summaries)
    if (summary.task == task && summary.measure.name != Measure{}.name) return summary.measure;
  return {};
}

bool is_for_comparison(const std::string& status) {
  return status == "baseline" || status == "published";
}

bool Table::is_for_comparison(const std::string& mechanism) const {
  return std::any_of(summaries.begin(), summaries.end(), [&](const Summary& summary) {
    return summary.mechanism == mechanism && reporting::is_for_comparison(summary.status);
  });
}

std::string Table::citation(const std::string& mechanism) const {
  for (const auto& summary : summaries)
    if (summary.mechanism == mechanism && !summary.citation.empty()) return summary.citation;
  return "";
}

Table summarize(const Record& record) {
  refuse_mixed_metrics(record.cells);
  Table table;
  for (auto& cell : record.cells)
    if (!is_for_comparison(cell.status)) add_unique(table.mechanisms, cell.mechanism);
  for (auto& cell : record.cells)
    if (cell.status == "published") add_unique(table.mechanisms, cell.mechanism);
  for (auto& cell : record.cells) {
    add_unique(table.mechanisms, cell.mechanism);
    add_unique(table.tasks, cell.task);
    if (!succeeded(cell) && cell.status != "pending")
      table.failures.push_back(
          {.mechanism = cell.mechanism,
           .task = cell.task,
           .status = outcome(cell),
           .reason = cell.reason.empty() ? "no reason was recorded" : cell.reason,
           .seed = cell.seed});
  }
  for (auto& mechanism : table.mechanisms)
    for (auto& task : table.tasks)
      table.summaries.push_back(summary_of(mechanism, task, record.cells));
  return table;
}

}  // namespace longbow::reporting

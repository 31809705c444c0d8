#include "longbow/report/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longbow/core/log.h"
#include "longbow/report/number.h"

namespace longbow::reporting {
namespace {

using Field = std::optional<Statistic> Summary::*;

GridCell absent(bool baseline) {
  return {.text = baseline ? "–" : "n.a.", .tone = Tone::muted};
}

template <class Format>
GridCell number_cell(const std::optional<double>& value, bool baseline, Format format) {
  if (!value) return absent(baseline);
  return {.text = format(*value), .value = *value};
}

std::optional<double> mean_of(const std::optional<Statistic>& statistic) {
  return statistic ? std::optional(statistic->mean) : std::nullopt;
}

std::string reasons(const Table& table, const Summary& summary) {
  std::string result;
  for (auto& failure : table.failures)
    if (failure.mechanism == summary.mechanism && failure.task == summary.task)
      result +=
          fmt::format("{}seed {}: {}", result.empty() ? "" : "\n", failure.seed, failure.reason);
  return result;
}

GridCell score_cell(const Table& table, const Summary& summary) {
  if (summary.score)
    return {.text = summary.text(), .value = summary.score->mean, .hint = reasons(table, summary)};
  if (summary.seeds > 0)
    return {.text = summary.text(),
            .tone = summary.status == "n.a." ? Tone::muted : Tone::failed,
            .hint = reasons(table, summary)};
  auto cell = absent(table.is_baseline(summary.mechanism));
  cell.hint = "not run";
  return cell;
}

std::string listed(const std::vector<std::string>& sites) {
  return fmt::format("{}", fmt::join(sites, ", "));
}

bool has_sites(const Table& table, const std::string& task) {
  return std::any_of(table.summaries.begin(), table.summaries.end(), [&](const Summary& summary) {
    return summary.task == task && !summary.sites.empty();
  });
}

GridCell mechanism_cell(const Table& table, const std::string& mechanism) {
  if (table.is_baseline(mechanism))
    return {.text = mechanism, .tone = Tone::muted, .hint = "baseline"};
  return {.text = mechanism};
}

std::vector<const Summary*> row_of(const Table& table, const std::string& mechanism) {
  std::vector<const Summary*> row;
  for (auto& task : table.tasks) row.push_back(&table.at(mechanism, task));
  return row;
}

// A value over all tasks, or none when a task is missing: a mean over fewer tasks compares unlike
// things.
template <class Combine>
std::optional<double> over_tasks(const std::vector<const Summary*>& row, Field field,
                                 Combine combine) {
  std::vector<double> values;
  for (auto summary : row) {
    if (!(summary->*field)) return {};
    values.push_back((summary->*field)->mean);
  }
  return values.empty() ? std::nullopt : std::optional(combine(values));
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (auto value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double arithmetic_mean(const std::vector<double>& values) {
  return statistic(values)->mean;
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::optional<double> most_parameters(const std::vector<const Summary*>& row) {
  std::vector<double> values;
  for (auto summary : row)
    if (summary->parameters) values.push_back(summary->parameters->mean);
  return values.empty() ? std::nullopt : std::optional(largest(values));
}

// " Used where it can be: fnet in encoder only; …", or nothing when all stand everywhere.
std::string site_sentence(const Table& table, const std::string& task) {
  size_t most = 0;
  for (auto& summary : table.summaries)
    if (summary.task == task) most = std::max(most, summary.sites.size());
  std::vector<std::string> parts;
  for (auto& summary : table.summaries)
    if (summary.task == task && !summary.sites.empty() && summary.sites.size() < most)
      parts.push_back(fmt::format("{} in {} only", summary.mechanism, listed(summary.sites)));
  if (parts.empty()) return "";
  return fmt::format(" Used where it can be: {}; other places are as the config says.",
                     fmt::join(parts, "; "));
}

// "Larger is better for listops; smaller is better for markov, reverse. "
std::string direction_sentence(const Table& table) {
  std::vector<std::string> larger, smaller;
  for (auto& task : table.tasks)
    (table.measure(task).larger_is_better ? larger : smaller).push_back(task);
  if (smaller.empty()) return "";
  if (larger.empty()) return "Smaller scores are better. ";
  return fmt::format("Larger is better for {}; smaller is better for {}. ", fmt::join(larger, ", "),
                     fmt::join(smaller, ", "));
}

bool averages(const Table& table) {
  return table.tasks.size() > 1 &&
         std::all_of(table.tasks.begin(), table.tasks.end(),
                     [&](auto& task) { return table.measure(task).percent; });
}

}  // namespace

void mark_best(Grid& grid, size_t column, bool lowest) {
  GridCell* best = nullptr;
  int found = 0;
  for (auto& row : grid.rows) {
    auto& cell = row[column];
    if (!cell.value || row[0].tone == Tone::muted) continue;
    ++found;
    if (!best || (lowest ? *cell.value < *best->value : *cell.value > *best->value)) best = &cell;
  }
  if (found > 1) best->tone = Tone::best;
}

Grid overview_grid(const Table& table) {
  auto several = table.tasks.size() > 1;
  Grid grid{.title = "Scores", .note = "", .columns = {"mechanism"}, .rows = {}};
  for (auto& task : table.tasks) grid.columns.push_back(task + " " + table.measure(task).heading());
  if (averages(table)) grid.columns.push_back("average %");
  grid.columns.insert(grid.columns.end(), {"tokens/s", "peak memory", "parameters"});
  for (auto& mechanism : table.mechanisms) {
    auto row = row_of(table, mechanism);
    auto baseline = table.is_baseline(mechanism);
    auto& cells = grid.rows.emplace_back();
    cells.push_back(mechanism_cell(table, mechanism));
    for (auto summary : row) cells.push_back(score_cell(table, *summary));
    if (averages(table))
      cells.push_back(number_cell(over_tasks(row, &Summary::score, arithmetic_mean), false,
                                  [](double v) { return fmt::format("{:.2f}", v); }));
    cells.push_back(number_cell(over_tasks(row, &Summary::tokens_per_second, geometric_mean),
                                baseline, human_count));
    cells.push_back(
        number_cell(over_tasks(row, &Summary::peak_bytes, largest), baseline, human_bytes));
    cells.push_back(number_cell(most_parameters(row), baseline, human_count));
  }
  for (size_t i = 0; i < table.tasks.size(); ++i)
    mark_best(grid, i + 1, !table.measure(table.tasks[i]).larger_is_better);
  if (averages(table)) mark_best(grid, table.tasks.size() + 1, false);
  grid.note =
      direction_sentence(table) + "Mean ± standard deviation over seeds where there are several.";
  if (several)
    grid.note +=
        " tokens/s is the geometric mean over the tasks, memory and parameters the largest; n.a. "
        "for "
        "speed and memory where a task is missing.";
  return grid;
}

Grid task_grid(const Table& table, const std::string& task) {
  Grid grid{.title = task, .note = scoring_sentence(table, task), .columns = {}, .rows = {}};
  grid.columns = {"mechanism",    table.measure(task).heading(),
                  "seeds",        "tokens/s",
                  "peak memory",  "parameters",
                  "training time"};
  auto placed = has_sites(table, task);
  if (placed) grid.columns.push_back("used in");
  for (auto& mechanism : table.mechanisms) {
    auto& summary = table.at(mechanism, task);
    if (summary.seeds == 0) continue;
    auto baseline = table.is_baseline(mechanism);
    grid.rows.push_back({mechanism_cell(table, mechanism), score_cell(table, summary),
                         number_cell(static_cast<double>(summary.seeds), baseline, exact_text),
                         number_cell(mean_of(summary.tokens_per_second), baseline, human_count),
                         number_cell(mean_of(summary.peak_bytes), baseline, human_bytes),
                         number_cell(mean_of(summary.parameters), baseline, human_count),
                         number_cell(mean_of(summary.seconds), baseline, human_seconds)});
    if (placed) grid.rows.back().push_back({.text = listed(summary.sites)});
  }
  mark_best(grid, 1, !table.measure(task).larger_is_better);
  mark_best(grid, 3, false);
  mark_best(grid, 4, true);
  return grid;
}

Grid failure_grid(const Table& table) {
  Grid grid{.title = "Missing cells",
            .note = "What did not finish, and why.",
            .columns = {"mechanism", "task", "seed", "status", "reason"},
            .rows = {},
            .text_columns = 5};
  for (auto& failure : table.failures)
    grid.rows.push_back(
        {{.text = failure.mechanism},
         {.text = failure.task},
         {.text = fmt::format("{}", failure.seed), .value = static_cast<double>(failure.seed)},
         {.text = failure.status, .tone = Tone::failed},
         {.text = failure.reason}});
  return grid;
}

std::string scoring_sentence(const Table& table, const std::string& task) {
  for (auto& summary : table.summaries) {
    if (summary.task != task || !summary.score || summary.split.empty()) continue;
    if (summary.status == "baseline") continue;
    auto sites = site_sentence(table, task);
    if (summary.chosen_by.empty()) return fmt::format("Scored on {}.{}", summary.split, sites);
    if (summary.chosen_by != summary.split)
      return fmt::format("Scored on {}; the checkpoint was chosen on {}.{}", summary.split,
                         summary.chosen_by, sites);
    return fmt::format(
        "Scored on {}, which also chose the checkpoint: the scores are optimistic.{}",
        summary.split, sites);
  }
  return "The record does not say which split was scored.";
}

}  // namespace longbow::reporting

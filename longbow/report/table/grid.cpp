#include "longbow/report/table/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "longbow/core/log.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

using Field = std::optional<Statistic> Summary::*;

template <class Format>
GridCell number_cell(const std::optional<double>& value, Format format) {
  if (!value) return {.text = "–", .tone = Tone::muted};
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
    return {
        .text = summary.text(), .tone = tone_of(summary.status), .hint = reasons(table, summary)};
  if (table.is_for_comparison(summary.mechanism)) return {.text = "–", .tone = Tone::muted};
  return {.text = summary.text(), .tone = tone_of(summary.status)};
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
  if (!table.is_for_comparison(mechanism)) return {.text = mechanism};
  const auto citation = table.citation(mechanism);
  return {.text = mechanism,
          .tone = Tone::muted,
          .hint = citation.empty() ? "baseline" : "published: " + citation};
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

// "Larger is better for listops; smaller is better for markov, reverse."
std::string direction_sentence(const Table& table) {
  std::vector<std::string> larger, smaller;
  for (auto& task : table.tasks)
    (table.measure(task).larger_is_better ? larger : smaller).push_back(task);
  if (smaller.empty()) return "";
  if (larger.empty()) return "Smaller scores are better.";
  return fmt::format("Larger is better for {}; smaller is better for {}.", fmt::join(larger, ", "),
                     fmt::join(smaller, ", "));
}

bool has_several_seeds(const Table& table) {
  return std::any_of(table.summaries.begin(), table.summaries.end(), [](const Summary& summary) {
    return summary.score && summary.score->count > 1;
  });
}

std::string overview_note(const Table& table) {
  std::vector<std::string> sentences;
  if (auto direction = direction_sentence(table); !direction.empty())
    sentences.push_back(direction);
  if (has_several_seeds(table))
    sentences.push_back("Mean ± standard deviation over seeds where there are several.");
  if (table.tasks.size() > 1)
    sentences.push_back(
        "tokens/s is the geometric mean over the tasks, memory and parameters the largest; no "
        "speed "
        "and no memory where a task is missing.");
  std::vector<std::string> citations;
  for (auto& mechanism : table.mechanisms)
    if (auto citation = table.citation(mechanism);
        !citation.empty() &&
        std::find(citations.begin(), citations.end(), citation) == citations.end())
      citations.push_back(citation);
  if (!citations.empty())
    sentences.push_back(
        fmt::format("Published by others, not measured here: {}.", fmt::join(citations, "; ")));
  return fmt::format("{}", fmt::join(sentences, " "));
}

bool averages(const Table& table) {
  return table.tasks.size() > 1 &&
         std::all_of(table.tasks.begin(), table.tasks.end(),
                     [&](auto& task) { return table.measure(task).percent; });
}

// The row of a failure that differs in its seed only.
std::vector<GridCell>* row_of_same(Grid& grid, const Failure& failure) {
  for (auto& row : grid.rows)
    if (row[0].text == failure.mechanism && row[1].text == failure.task &&
        row[3].text == failure.status && row[4].text == failure.reason)
      return &row;
  return nullptr;
}

const char* meaning_of(Tone tone) {
  switch (tone) {
    case Tone::pending:
      return "not run yet";
    case Tone::refused:
      return "the mechanism cannot do the task";
    case Tone::failed:
      return "failed, for the reason below";
    case Tone::out_of_memory:
      return "ran out of memory";
    default:
      return "";
  }
}

}  // namespace

Tone tone_of(const std::string& status) {
  if (status == "pending" || status == "not run") return Tone::pending;
  if (status == "n.a.") return Tone::refused;
  return status == "OOM" ? Tone::out_of_memory : Tone::failed;
}

std::vector<GridCell> states_of(const Grid& grid) {
  std::vector<GridCell> states;
  for (auto& row : grid.rows)
    for (auto& cell : row) {
      auto same = [&](const GridCell& state) { return state.text == cell.text; };
      auto explained = *meaning_of(cell.tone) && cell.text != "not run";
      if (explained && std::none_of(states.begin(), states.end(), same))
        states.push_back({.text = cell.text, .tone = cell.tone, .hint = meaning_of(cell.tone)});
    }
  std::stable_sort(states.begin(), states.end(),
                   [](const GridCell& a, const GridCell& b) { return a.tone < b.tone; });
  return states;
}

std::string state_sentence(const Grid& grid) {
  std::vector<std::string> parts;
  for (auto& state : states_of(grid)) parts.push_back(state.text + ": " + state.hint);
  return parts.empty() ? "" : fmt::format("{}.", fmt::join(parts, "; "));
}

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
  Grid grid{.title = "Scores", .note = "", .columns = {"mechanism"}, .rows = {}};
  for (auto& task : table.tasks) grid.columns.push_back(task + " " + table.measure(task).heading());
  if (averages(table)) grid.columns.push_back("average %");
  grid.columns.insert(grid.columns.end(), {"tokens/s", "peak memory", "parameters"});
  for (auto& mechanism : table.mechanisms) {
    auto row = row_of(table, mechanism);
    auto& cells = grid.rows.emplace_back();
    cells.push_back(mechanism_cell(table, mechanism));
    for (auto summary : row) cells.push_back(score_cell(table, *summary));
    if (averages(table))
      cells.push_back(number_cell(over_tasks(row, &Summary::score, arithmetic_mean),
                                  [](double v) { return fmt::format("{:.2f}", v); }));
    cells.push_back(
        number_cell(over_tasks(row, &Summary::tokens_per_second, geometric_mean), human_count));
    cells.push_back(number_cell(over_tasks(row, &Summary::peak_bytes, largest), human_bytes));
    cells.push_back(number_cell(most_parameters(row), human_count));
  }
  for (size_t i = 0; i < table.tasks.size(); ++i)
    mark_best(grid, i + 1, !table.measure(table.tasks[i]).larger_is_better);
  if (averages(table)) mark_best(grid, table.tasks.size() + 1, false);
  grid.note = overview_note(table);
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
    grid.rows.push_back({mechanism_cell(table, mechanism), score_cell(table, summary),
                         number_cell(static_cast<double>(summary.seeds), exact_text),
                         number_cell(mean_of(summary.tokens_per_second), human_count),
                         number_cell(mean_of(summary.peak_bytes), human_bytes),
                         number_cell(mean_of(summary.parameters), human_count),
                         number_cell(mean_of(summary.seconds), human_seconds)});
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
            .columns = {"mechanism", "task", "seeds", "status", "reason"},
            .rows = {},
            .text_columns = 5};
  for (auto& failure : table.failures) {
    auto seed = fmt::format("{}", failure.seed);
    if (auto row = row_of_same(grid, failure); row) {
      (*row)[2].text += ", " + seed;
      continue;
    }
    grid.rows.push_back({{.text = failure.mechanism},
                         {.text = failure.task},
                         {.text = seed, .value = static_cast<double>(failure.seed)},
                         {.text = failure.status, .tone = tone_of(failure.status)},
                         {.text = failure.reason}});
  }
  return grid;
}

std::string scoring_sentence(const Table& table, const std::string& task) {
  for (auto& summary : table.summaries) {
    if (summary.task != task || !summary.score || summary.split.empty()) continue;
    if (is_for_comparison(summary.status)) continue;
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

#include "longbow/report/table/bench_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "longbow/core/log.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

using Field = std::optional<double> Benchmark::*;
using Format = std::function<std::string(double)>;

std::string length_text(double length) {
  return fmt::format("{:.0f}", length);
}

GridCell bench_cell(const Benchmark* benchmark, Field field, const Format& format) {
  if (!benchmark) return {.text = "not run", .tone = tone_of("not run")};
  if (benchmark->status != "ok")
    return {
        .text = benchmark->status, .tone = tone_of(benchmark->status), .hint = benchmark->reason};
  auto& value = benchmark->*field;
  if (!value) return {.text = "–", .tone = Tone::muted, .hint = "not measured"};
  return {.text = format(*value), .value = *value};
}

Grid by_length(const Record& record, const std::string& mode, Field field, const Format& format) {
  auto lengths = bench_lengths(record, mode);
  Grid grid{.title = "", .note = "", .columns = {"mechanism"}, .rows = {}};
  for (auto length : lengths) grid.columns.push_back("N = " + length_text(length));
  for (auto& mechanism : bench_mechanisms(record, mode)) {
    auto& row = grid.rows.emplace_back();
    row.push_back({.text = mechanism});
    for (auto length : lengths)
      row.push_back(bench_cell(find_benchmark(record, mode, mechanism, length), field, format));
  }
  for (size_t column = 1; column < grid.columns.size(); ++column) mark_best(grid, column, true);
  return grid;
}

// Time of the reference over the time of the mechanism at the longest length that both finished.
GridCell speedup_cell(const Record& record, const Growth& growth) {
  auto lengths = bench_lengths(record, growth.mode);
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
    for (auto& reference : record.benchmarks) {
      if (!is_reference(reference.mechanism) || reference.mode != growth.mode) continue;
      if (reference.length != *length || !reference.seconds) continue;
      auto own = find_benchmark(record, growth.mode, growth.mechanism, *length);
      if (!own || !own->seconds) continue;
      auto ratio = *reference.seconds / *own->seconds;
      return {.text = fmt::format("{:.2f}× at {}", ratio, length_text(*length)), .value = ratio};
    }
  return {.text = "–", .tone = Tone::muted};
}

GridCell optional_cell(const std::optional<double>& value, const Format& format,
                       const std::string& otherwise) {
  if (!value) return {.text = otherwise, .tone = Tone::muted};
  return {.text = format(*value), .value = *value};
}

// "none in range" only where softmax was measured beside it.
GridCell crossover_cell(const Record& record, const Growth& growth) {
  const bool compared = !is_reference(growth.mechanism) &&
                        std::ranges::any_of(record.benchmarks, [&](const Benchmark& row) {
                          return row.mode == growth.mode && is_reference(row.mechanism);
                        });
  return optional_cell(growth.crossover_length, length_text, compared ? "none in range" : "–");
}

// What a growth table says of each mechanism. An optional column is shown where any of them has a
// value.
struct GrowthColumn {
  std::string title;
  std::function<GridCell(const Growth&)> cell;
  bool optional = false;
  bool is_shown(const Record& record) const {
    return !optional || std::ranges::any_of(record.growth, [&](const Growth& row) {
      return cell(row).value.has_value();
    });
  }
};

std::function<GridCell(const Growth&)> exponent_cell(std::optional<double> Growth::*field) {
  return [=](const Growth& row) { return optional_cell(row.*field, exponent_text, "–"); };
}

bool any_value(const Record& record, const std::string& mode, Field field) {
  return std::any_of(record.benchmarks.begin(), record.benchmarks.end(),
                     [&](const Benchmark& row) { return row.mode == mode && row.*field; });
}

}  // namespace

bool is_reference(const std::string& mechanism) {
  static const std::set<std::string> names = {"softmax", "softmax_fused", "fused_softmax", "sdpa"};
  return names.contains(mechanism);
}

std::vector<std::string> bench_modes(const Record& record) {
  std::vector<std::string> modes;
  for (auto& row : record.benchmarks)
    if (std::find(modes.begin(), modes.end(), row.mode) == modes.end()) modes.push_back(row.mode);
  return modes;
}

std::vector<std::string> bench_mechanisms(const Record& record, const std::string& mode) {
  std::vector<std::string> names;
  for (auto& row : record.benchmarks)
    if (row.mode == mode && std::find(names.begin(), names.end(), row.mechanism) == names.end())
      names.push_back(row.mechanism);
  return names;
}

std::vector<double> bench_lengths(const Record& record, const std::string& mode) {
  std::set<double> lengths;
  for (auto& row : record.benchmarks)
    if (row.mode == mode) lengths.insert(row.length);
  return {lengths.begin(), lengths.end()};
}

const Benchmark* find_benchmark(const Record& record, const std::string& mode,
                                const std::string& mechanism, double length) {
  for (auto& row : record.benchmarks)
    if (row.mode == mode && row.mechanism == mechanism && row.length == length) return &row;
  return nullptr;
}

Grid time_grid(const Record& record, const std::string& mode) {
  auto grid = by_length(record, mode, &Benchmark::seconds, duration_text);
  grid.title = mode + ": time";
  grid.note = "Median of one call.";
  auto mechanisms = bench_mechanisms(record, mode);
  auto lengths = bench_lengths(record, mode);
  for (size_t i = 0; i < mechanisms.size(); ++i)
    for (size_t j = 0; j < lengths.size(); ++j) {
      auto row = find_benchmark(record, mode, mechanisms[i], lengths[j]);
      if (row && row->seconds && row->p20 && row->p80)
        grid.rows[i][j + 1].hint =
            fmt::format("p20 {}, p80 {}", duration_text(*row->p20), duration_text(*row->p80));
    }
  return grid;
}

Grid memory_grid(const Record& record, const std::string& mode) {
  auto grid = by_length(record, mode, &Benchmark::peak_bytes, human_bytes);
  grid.title = mode + ": peak memory";
  return grid;
}

Grid error_grid(const Record& record, const std::string& mode) {
  auto grid =
      by_length(record, mode, &Benchmark::error, [](double v) { return fmt::format("{:.1e}", v); });
  grid.title = mode + ": error against float64";
  return grid;
}

Grid growth_grid(const Record& record) {
  std::vector<GrowthColumn> columns = {
      {.title = "time exponent", .cell = exponent_cell(&Growth::time_exponent)},
      {.title = "processor time exponent",
       .cell = exponent_cell(&Growth::cpu_exponent),
       .optional = true},
      {.title = "promised time exponent",
       .cell = exponent_cell(&Growth::promised_time),
       .optional = true},
      {.title = "memory exponent", .cell = exponent_cell(&Growth::memory_exponent)},
      {.title = "promised memory exponent",
       .cell = exponent_cell(&Growth::promised_memory),
       .optional = true},
      {.title = "crossover length",
       .cell = [&](const Growth& row) { return crossover_cell(record, row); }},
      {.title = "speed against softmax",
       .cell = [&](const Growth& row) { return speedup_cell(record, row); }}};
  std::erase_if(columns, [&](const GrowthColumn& column) { return !column.is_shown(record); });
  Grid grid{
      .title = "Growth",
      .note =
          "Exponents fitted to time and memory over length. Crossover: the length from which the "
          "mechanism is faster than fused softmax. Speed: fused softmax's time over the "
          "mechanism's.",
      .columns = {"mechanism", "mode"},
      .rows = {},
      .text_columns = 2};
  for (const auto& column : columns) grid.columns.push_back(column.title);
  for (const auto& growth : record.growth) {
    auto& row = grid.rows.emplace_back();
    row = {{.text = growth.mechanism}, {.text = growth.mode}};
    for (const auto& column : columns) row.push_back(column.cell(growth));
  }
  return grid;
}

Grid bench_failure_grid(const Record& record) {
  Grid grid{.title = "Missing rows",
            .note = "What could not be measured, and why.",
            .columns = {"mechanism", "mode", "lengths", "status", "reason"},
            .rows = {},
            .text_columns = 5};
  for (auto& row : record.benchmarks) {
    if (row.status == "ok") continue;
    auto reason = row.reason.empty() ? "no reason was recorded" : row.reason;
    auto same = std::find_if(grid.rows.begin(), grid.rows.end(), [&](const auto& cells) {
      return cells[0].text == row.mechanism && cells[1].text == row.mode &&
             cells[3].text == row.status && cells[4].text == reason;
    });
    if (same == grid.rows.end())
      grid.rows.push_back({{.text = row.mechanism},
                           {.text = row.mode},
                           {.text = length_text(row.length), .value = row.length},
                           {.text = row.status, .tone = tone_of(row.status)},
                           {.text = reason}});
    else
      (*same)[2].text += ", " + length_text(row.length);
  }
  return grid;
}

std::vector<Grid> mode_grids(const Record& record, const std::string& mode) {
  std::vector<Grid> grids = {time_grid(record, mode)};
  if (any_value(record, mode, &Benchmark::peak_bytes)) grids.push_back(memory_grid(record, mode));
  if (any_value(record, mode, &Benchmark::error)) grids.push_back(error_grid(record, mode));
  return grids;
}

std::vector<Grid> bench_grids(const Record& record) {
  std::vector<Grid> grids;
  if (!record.growth.empty()) grids.push_back(growth_grid(record));
  for (auto& mode : bench_modes(record))
    for (auto& grid : mode_grids(record, mode)) grids.push_back(grid);
  auto failures = bench_failure_grid(record);
  if (!failures.rows.empty()) grids.push_back(failures);
  return grids;
}

}  // namespace longbow::reporting

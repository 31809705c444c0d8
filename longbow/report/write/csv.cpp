#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/table.h"
#include "longbow/report/write/report.h"

namespace longbow {
namespace {

using namespace reporting;

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (auto c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string field(const std::optional<double>& value) {
  return value ? exact_text(*value) : "";
}

std::string mean(const std::optional<Statistic>& value) {
  return value ? exact_text(value->mean) : "";
}

std::string line(const std::vector<std::string>& fields) {
  return fmt::format("{}\n", fmt::join(fields, ","));
}

std::string cell_lines(const Record& record) {
  auto table = summarize(record);
  auto result = line({"mechanism", "task", "metric", "unit", "better", "score", "deviation",
                      "seeds", "seeds_scored", "status", "tokens_per_second", "peak_bytes",
                      "parameters", "seconds", "split", "chosen_by", "sites", "reason"});
  for (auto& summary : table.summaries) {
    if (summary.seeds == 0 && table.is_for_comparison(summary.mechanism)) continue;
    std::string reason = summary.citation;
    for (auto& failure : table.failures)
      if (failure.mechanism == summary.mechanism && failure.task == summary.task && reason.empty())
        reason = failure.reason;
    auto measure = table.measure(summary.task);
    auto scored = summary.score ? summary.score->count : 0;
    result +=
        line({field(summary.mechanism), field(summary.task), field(measure.name), measure.unit(),
              measure.larger_is_better ? "larger" : "smaller", mean(summary.score),
              scored > 1 ? exact_text(summary.score->deviation) : "",
              fmt::format("{}", summary.seeds), fmt::format("{}", scored), field(summary.status),
              mean(summary.tokens_per_second), mean(summary.peak_bytes), mean(summary.parameters),
              mean(summary.seconds), field(summary.split), field(summary.chosen_by),
              fmt::format("{}", fmt::join(summary.sites, " ")), field(reason)});
  }
  return result;
}

std::string bench_lines(const Record& record) {
  auto result = line({"mechanism", "mode", "length", "seconds", "p20", "p80", "peak_bytes", "error",
                      "status", "time_exponent", "cpu_exponent", "promised_time_exponent",
                      "memory_exponent", "promised_memory_exponent", "crossover_length", "reason"});
  for (auto& row : record.benchmarks) {
    Growth growth;
    for (auto& fit : record.growth)
      if (fit.mechanism == row.mechanism && fit.mode == row.mode) growth = fit;
    result +=
        line({field(row.mechanism), field(row.mode), exact_text(row.length), field(row.seconds),
              field(row.p20), field(row.p80), field(row.peak_bytes), field(row.error),
              field(row.status), field(growth.time_exponent), field(growth.cpu_exponent),
              field(growth.promised_time), field(growth.memory_exponent),
              field(growth.promised_memory), field(growth.crossover_length), field(row.reason)});
  }
  return result;
}

}  // namespace

std::string to_csv(const Record& record) {
  if (record.benchmarks.empty()) return cell_lines(record);
  if (record.cells.empty()) return bench_lines(record);
  return cell_lines(record) + "\n" + bench_lines(record);
}

}  // namespace longbow

#pragma once
// Cells gathered over seeds: every output of a report takes its numbers from here.
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/table/number.h"
#include "longbow/report/table/record.h"

namespace longbow::reporting {

struct Statistic {
  double mean = 0, deviation = 0;  // deviation of the sample (n - 1); 0 for one value
  int64_t count = 0;
};
std::optional<Statistic> statistic(const std::vector<double>& values);  // none for no values

struct Failure {
  std::string mechanism, task, status, reason;
  int64_t seed = 0;
};

// One mechanism on one task.
struct Summary {
  std::string mechanism{}, task{}, split{}, chosen_by{};
  Measure measure{};
  std::vector<std::string> sites{};
  // ok, baseline, published, or what became of every seed: FAIL, OOM, n.a. (refused), no score,
  // pending.
  std::string status = "not run";
  std::string citation{};            // of what was published
  int64_t seeds = 0;                 // tried
  std::optional<Statistic> score{};  // in the unit of the tables
  std::optional<Statistic> tokens_per_second{}, peak_bytes{}, parameters{}, seconds{};

  std::string text() const;  // "57.31 ± 0.42", "57.31 (1/3 seeds)", "OOM"
};

struct Table {
  std::vector<std::string> mechanisms;  // in order of appearance, then published ones and baselines
  std::vector<std::string> tasks;
  std::vector<Summary> summaries;  // every mechanism with every task, mechanism by mechanism
  std::vector<Failure> failures;   // cells without a score that are not pending

  const Summary& at(const std::string& mechanism, const std::string& task) const;
  Measure measure(const std::string& task) const;
  // A row to compare with, which was not trained here: published, or a baseline.
  bool is_for_comparison(const std::string& mechanism) const;
  std::string citation(const std::string& mechanism) const;  // empty for all others
};

bool is_for_comparison(const std::string& status);  // baseline or published

Table summarize(const Record& record);

}  // namespace longbow::reporting

#pragma once
// What a report is made of: the cells of an arena or of one run, their curves, and the rows of a
// bench.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longbow {

// One mechanism on one task with one seed. A score of accuracy, F1, … is a fraction of 1.
struct Cell {
  std::string mechanism{}, task{};
  int64_t seed = 0;
  std::string metric{};
  std::optional<bool> larger_is_better{}, percent{};  // where nothing is said, by the metric's name
  std::optional<double> score{}, parameters{}, tokens_per_second{}, peak_bytes{}, steps{},
      seconds{};
  // ok, baseline, published (by others), pending, n.a. (refused), FAIL, OOM
  std::string status = "ok";
  std::string reason{};  // of a failure; what a baseline does; where a score was published
  std::string split{}, chosen_by{};  // the split that scored, the split that chose the checkpoint
  std::vector<std::string> sites{};  // where the mechanism stands, of a model with several places
  std::string run{};                 // folder of the run, relative to the record
};

// One quantity of metrics.jsonl over steps.
struct Curve {
  std::string label{};  // the mechanism
  std::string task{}, quantity{}, split{};
  int64_t seed = 0;
  std::vector<std::pair<double, double>> points{};  // step, value
};

struct Benchmark {
  std::string mechanism{}, mode{};
  double length = 0;
  std::optional<double> seconds{}, p20{}, p80{};  // whatever the unit of the file was
  std::optional<double> peak_bytes{}, error{};    // error against float64
  std::string status = "ok", reason{};
};

struct Growth {
  std::string mechanism{}, mode{};
  std::optional<double> time_exponent{}, memory_exponent{}, crossover_length{};
  std::optional<double> cpu_exponent{};  // of processor time, which other programs disturb less
  std::optional<double> promised_time{}, promised_memory{};  // exponents, where one is promised
};

struct Record {
  std::string title = "longbow";  // the arena's name, or that of the folder or file
  std::string kind{};             // arena, run, bench
  std::string date{};             // 2026-11-15: when the arena ran, else when its file was written
  std::vector<std::pair<std::string, std::string>> context{};  // in the order written
  std::string config{};                                        // the resolved config, as text
  std::vector<Cell> cells{};
  std::vector<Curve> curves{};
  std::vector<Benchmark> benchmarks{};
  std::vector<Growth> growth{};
  std::vector<std::string> notes{};  // what could not be read and was left out
};

// The text of such a file; `path` is where curves of runs are looked for, and stands in errors.
Record parse_record(const std::string& text, const std::string& path);
// An arena folder, a run folder, or a JSON file of an arena, a run or a bench.
Record load_record(const std::string& path);

}  // namespace longbow

#pragma once
// Runs and what they left in their folders.
#include <nlohmann/json.hpp>
#include <sstream>

#include "longbow/core/file.h"
#include "longbow/train/run/evaluate.h"
#include "longbow/train/run/finished_run.h"
#include "longbow/train/run/train.h"
#include "tests/train/scratch.h"

namespace longbow {

inline Result run(const RunConfig& config, const std::string& out, bool resume = false) {
  return train(config, {.out = out, .resume = resume, .progress = ProgressStyle::off});
}

inline std::vector<nlohmann::json> metrics(const std::string& folder, const std::string& split) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_file(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (auto row = nlohmann::json::parse(line); row.at("split") == split) rows.push_back(row);
  return rows;
}

inline std::vector<double> losses(const std::string& folder) {
  std::vector<double> values;
  for (const auto& row : metrics(folder, "train")) values.push_back(row.at("loss").get<double>());
  return values;
}

}  // namespace longbow

#pragma once
// A small arena, and what was written of it.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"

namespace longbow::cli {

inline const std::string kArena = R"(name: tiny
common:
  model: {width: 16, heads: 2, layers: 1}
  train: {max_steps: 12, batch_size: 8, bucket: 4, log_every: 4}
tasks:
  recall:
    data:
      recall: {train: 64, valid: 16, test: 16, keys: 8, values: 4, pairs: 4, queries: 4}
mechanisms:
  - linear
  - {name: local, window: 4, label: local 4}
)";

inline Arguments arena(const Arguments& more = {}) {
  Arguments words = {"arena", "arena.yaml", "--out", "out", "--progress", "off"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// By mechanism.
inline std::map<std::string, nlohmann::json> cells(const Workspace& here) {
  std::map<std::string, nlohmann::json> found;
  for (const auto& row : nlohmann::json::parse(here.read("out/results.json")))
    found[row.at("mechanism")] = row;
  return found;
}

}  // namespace longbow::cli

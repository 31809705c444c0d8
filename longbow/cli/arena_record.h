#pragma once
// What an arena writes down: its cells, what they are compared with, and the report of both.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "longbow/arena/plan.h"
#include "longbow/tasks/task.h"
#include "longbow/train/run/trainer.h"

namespace longbow::cli {

// A row of results.json.
Node json_of(const Result& result, const arena::ArenaCell& cell);

// UserError at its place for a score that is no fraction although its metric is one.
void check_published(const std::vector<arena::PublishedRow>& rows);

// The rows of each task to compare with, for the metric that its cells are scored by: published
// ones are listed once a cell has shown which that is.
class References {
 public:
  explicit References(std::vector<arena::PublishedRow> published)
      : published_(std::move(published)) {}
  void add(const std::string& task, std::vector<Baseline> baselines) {
    tasks_.emplace_back(task, std::move(baselines));
  }
  void choose(const std::string& task, const std::string& metric);
  void add_to(std::vector<Node>& list) const;

 private:
  std::vector<std::pair<std::string, std::vector<Baseline>>> tasks_;
  std::vector<arena::PublishedRow> published_;
  std::set<std::string> chosen_;  // tasks whose metric is known
};

// Writes the rows and the context, and the report of them.
void write_record(const Node& rows, const Node& context, const std::string& out);

}  // namespace longbow::cli

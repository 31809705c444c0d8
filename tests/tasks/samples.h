#pragma once
#include <vector>

#include "longbow/data/feed/batch.h"
#include "longbow/tasks/task.h"

namespace longbow {

// All three splits are these samples; ids up to 9.
inline Splits splits_of(std::vector<Sample> samples, int64_t classes = 0) {
  Splits splits = {.vocabulary = 10, .classes = classes};
  const auto list = std::make_shared<SampleList>(std::move(samples), /*per_token=*/false);
  set_splits(splits, list, list, list);
  return splits;
}

// The whole training split.
inline Batch batch_of(const Task& task, int64_t padded) {
  Plan plan = {.padded_length = padded};
  for (int64_t i = 0; i < task.splits().train->size(); ++i) plan.indices.push_back(i);
  return collate(*task.splits().train, plan);
}

inline std::unique_ptr<Task> made(const std::string& objective, const Splits& splits,
                                  const std::string& model, const TaskOptions& options = {}) {
  const auto tree = parse_yaml(model, "model");
  find_objective(objective).check(tree);
  return find_objective(objective).make(splits, tree, options);
}

inline double value_of(const Outcome& outcome, const std::string& name) {
  return outcome.sums.at(name).item<double>();
}

}  // namespace longbow

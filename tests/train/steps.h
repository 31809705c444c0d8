#pragma once
#include "longbow/train/step/step.h"

namespace longbow {

// Key-value recall with dropout, and two batches of different shapes.
inline std::unique_ptr<Task> tiny_task(at::Device device,
                                       const std::string& attention = "softmax") {
  DataConfig data = {.name = "recall"};
  data.options = parse_yaml(
      "{train: 12, valid: 4, test: 4, keys: 6, values: 3, pairs: 4, queries: 3}", "options");
  const auto model = parse_yaml(
      "{width: 16, layers: 2, init: xavier, block: {dropout: 0.2}, attention: " + attention + "}",
      "model");
  return find_objective("classification")
      .make(load_data(data), model, {.bucket = 16, .device = device});
}

inline std::vector<Batch> tiny_batches(const Task& task) {
  return {collate(*task.splits().train, {.indices = {0, 1, 2, 3}, .padded_length = 16}),
          collate(*task.splits().train, {.indices = {4, 5, 6}, .padded_length = 12})};
}

}  // namespace longbow

#pragma once
// What can be had without a model: rows that every score should be read against.
#include <functional>
#include <optional>
#include <string>

#include "longbow/data/samples/dataset.h"

namespace longbow {

struct Baseline {
  std::string name, meaning, metric;
  bool larger_is_better = true;
  double score = 0;  // on the test split
};

// The share of the targets of the test split that are the most frequent one of the training split
// among the samples with the same clue.
double majority_accuracy(const Splits& splits, const std::function<int(const Sample&)>& clue);

// The share of the test split's samples that are answered rightly. Where there is no answer, it is
// the most frequent target of the training split among the samples with the same clue.
double answer_accuracy(const Splits& splits,
                       const std::function<std::optional<int>(const Sample&)>& answer,
                       const std::function<int(const Sample&)>& clue);

}  // namespace longbow

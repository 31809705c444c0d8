#pragma once
// Scores of a classifier, by scikit-learn's definitions.
#include <cstddef>
#include <span>

#include "longbow/metrics/confusion.h"

namespace longbow::metrics {

struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  double support = 0;  // how often the class is true
};

// Of one class. `zero_division` is what a score with denominator 0 counts as.
ClassScores scores_of(const ConfusionMatrix& matrix, size_t of, double zero_division = 0);

enum class Average {
  macro,     // the mean over classes
  micro,     // hits, truths and predictions are summed over classes first
  weighted,  // the mean over classes, each weighted by its support
};
struct AverageOptions {
  double zero_division = 0;
  std::span<const size_t> classes{};  // empty: each class that is true or predicted somewhere
};
ClassScores average_scores(const ConfusionMatrix& matrix, Average average,
                           const AverageOptions& options = {});

// Not a number where a denominator is 0, unless stated otherwise.
double accuracy(const ConfusionMatrix& matrix);
double balanced_accuracy(const ConfusionMatrix& matrix);  // mean recall of the classes that occur
double matthews(const ConfusionMatrix& matrix);           // 0 where either side is constant
double cohen_kappa(const ConfusionMatrix& matrix);

// F1 of the class "at least `threshold`", which both the scores and the targets are cut into. KLUE
// scores sentence similarity at 3.
double f1_at_threshold(std::span<const double> predictions, std::span<const double> targets,
                       double threshold, double zero_division = 0);

}  // namespace longbow::metrics

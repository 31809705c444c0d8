#include "longbow/metrics/classification.h"

#include <cmath>
#include <stdexcept>
#include <vector>

namespace longbow::metrics {
namespace {

struct Tally {
  double hits = 0, truths = 0, predictions = 0;
};

Tally tally_of(const ConfusionMatrix& matrix, size_t of) {
  return {matrix.hits(of), matrix.truths(of), matrix.predictions(of)};
}

double divided(double part, double whole, double zero_division) {
  return whole == 0 ? zero_division : part / whole;
}

// F1 is taken from the counts: it is defined where only one of precision and recall is.
ClassScores scores_of(const Tally& tally, double zero_division) {
  return {.precision = divided(tally.hits, tally.predictions, zero_division),
          .recall = divided(tally.hits, tally.truths, zero_division),
          .f1 = divided(2 * tally.hits, tally.truths + tally.predictions, zero_division),
          .support = tally.truths};
}

std::vector<Tally> tallies_of(const ConfusionMatrix& matrix, std::span<const size_t> classes) {
  std::vector<Tally> tallies;
  for (const auto of : classes) tallies.push_back(tally_of(matrix, of));
  if (!classes.empty()) return tallies;
  for (size_t of = 0; of < matrix.classes(); ++of) {
    const auto tally = tally_of(matrix, of);
    if (tally.truths + tally.predictions > 0) tallies.push_back(tally);
  }
  return tallies;
}

}  // namespace

ClassScores scores_of(const ConfusionMatrix& matrix, size_t of, double zero_division) {
  return scores_of(tally_of(matrix, of), zero_division);
}

ClassScores average_scores(const ConfusionMatrix& matrix, Average average,
                           const AverageOptions& options) {
  const auto tallies = tallies_of(matrix, options.classes);
  Tally sum;
  for (const auto& tally : tallies) {
    sum.hits += tally.hits;
    sum.truths += tally.truths;
    sum.predictions += tally.predictions;
  }
  if (average == Average::micro) return scores_of(sum, options.zero_division);
  // Without any support all classes count the same.
  const bool by_support = average == Average::weighted && sum.truths > 0;
  ClassScores mean;
  double weights = 0;
  for (const auto& tally : tallies) {
    const auto scores = scores_of(tally, options.zero_division);
    const double weight = by_support ? tally.truths : 1;
    mean.precision += weight * scores.precision;
    mean.recall += weight * scores.recall;
    mean.f1 += weight * scores.f1;
    weights += weight;
  }
  return {.precision = mean.precision / weights,
          .recall = mean.recall / weights,
          .f1 = mean.f1 / weights,
          .support = sum.truths};
}

double accuracy(const ConfusionMatrix& matrix) {
  return matrix.hits() / matrix.total();
}

double balanced_accuracy(const ConfusionMatrix& matrix) {
  double sum = 0, occurring = 0;
  for (size_t of = 0; of < matrix.classes(); ++of) {
    const double truths = matrix.truths(of);
    if (truths == 0) continue;
    sum += matrix.hits(of) / truths;
    ++occurring;
  }
  return sum / occurring;
}

double matthews(const ConfusionMatrix& matrix) {
  const double total = matrix.total();
  double agreed = matrix.hits() * total, truth_spread = 0, prediction_spread = 0;
  for (size_t of = 0; of < matrix.classes(); ++of) {
    const auto tally = tally_of(matrix, of);
    agreed -= tally.truths * tally.predictions;
    truth_spread += tally.truths * (total - tally.truths);  // exactly 0 where there is one class
    prediction_spread += tally.predictions * (total - tally.predictions);
  }
  const double spread = std::sqrt(truth_spread) * std::sqrt(prediction_spread);
  return spread == 0 ? 0 : agreed / spread;
}

double cohen_kappa(const ConfusionMatrix& matrix) {
  const double total = matrix.total();
  double expected = 0;  // disagreement by chance, times the total
  for (size_t of = 0; of < matrix.classes(); ++of)
    expected += matrix.truths(of) * (total - matrix.predictions(of));
  return 1 - (total - matrix.hits()) * total / expected;
}

double f1_at_threshold(std::span<const double> predictions, std::span<const double> targets,
                       double threshold, double zero_division) {
  if (predictions.size() != targets.size())
    throw std::invalid_argument("f1_at_threshold: predictions and targets differ in number");
  ConfusionMatrix matrix(2);
  for (size_t i = 0; i < targets.size(); ++i)
    matrix.add(targets[i] >= threshold, predictions[i] >= threshold);
  return scores_of(matrix, 1, zero_division).f1;
}

}  // namespace longbow::metrics

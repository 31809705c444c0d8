#include "longbow/metrics/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace longbow::metrics {
namespace {

// Positives and negatives that have one score.
struct Step {
  double positives = 0, negatives = 0;
};

std::vector<Step> steps_from_the_top(std::span<const double> scores,
                                     std::span<const uint8_t> positive) {
  if (scores.size() != positive.size())
    throw std::invalid_argument("ranking: scores and classes differ in number");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t left, size_t right) { return scores[left] > scores[right]; });
  std::vector<Step> steps;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || scores[order[i]] != scores[order[i - 1]]) steps.emplace_back();
    (positive[order[i]] ? steps.back().positives : steps.back().negatives) += 1;
  }
  return steps;
}

double clipped(double probability) {
  constexpr double kRounding = std::numeric_limits<double>::epsilon();
  return std::clamp(probability, kRounding, 1 - kRounding);
}

}  // namespace

double roc_auc(std::span<const double> scores, std::span<const uint8_t> positive) {
  double positives = 0, negatives = 0, ordered = 0;
  for (const auto& step : steps_from_the_top(scores, positive)) {
    ordered += step.negatives * (positives + step.positives / 2);
    positives += step.positives;
    negatives += step.negatives;
  }
  return ordered / (positives * negatives);
}

double average_precision(std::span<const double> scores, std::span<const uint8_t> positive) {
  double positives = 0, seen = 0, sum = 0;
  for (const auto& step : steps_from_the_top(scores, positive)) {
    positives += step.positives;
    seen += step.positives + step.negatives;
    sum += step.positives * positives / seen;
  }
  return positives == 0 ? 0 : sum / positives;
}

double log_loss(std::span<const double> probabilities, std::span<const uint8_t> positive) {
  if (probabilities.size() != positive.size())
    throw std::invalid_argument("log_loss: probabilities and classes differ in number");
  double sum = 0;
  for (size_t i = 0; i < positive.size(); ++i) {
    const double probability = clipped(probabilities[i]);
    sum -= positive[i] ? std::log(probability) : std::log1p(-probability);
  }
  return sum / static_cast<double>(positive.size());
}

double log_loss(std::span<const double> probabilities, size_t classes,
                std::span<const size_t> targets) {
  if (probabilities.size() != classes * targets.size())
    throw std::invalid_argument("log_loss: probabilities are not [samples, classes]");
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= classes) throw std::out_of_range("log_loss: target without a class");
    sum -= std::log(clipped(probabilities[i * classes + targets[i]]));
  }
  return sum / static_cast<double>(targets.size());
}

}  // namespace longbow::metrics

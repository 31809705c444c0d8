#include "longbow/metrics/significance.h"

#include <algorithm>
#include <numeric>

namespace longbow::metrics {

std::string signature_of(PairedTest test, const Trials& trials) {
  return std::string(test == PairedTest::bootstrap ? "bs:" : "ar:") + std::to_string(trials.count) +
         "|seed:" + std::to_string(trials.seed);
}

Interval confidence_interval(std::vector<double> scores) {
  if (scores.empty()) throw std::invalid_argument("confidence_interval: no scores");
  std::ranges::sort(scores);
  const auto left_out = scores.size() / 40;
  const double mean =
      std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  return {mean, (scores[scores.size() - 1 - left_out] - scores[left_out]) / 2};
}

double p_value_of(std::span<const double> differences, double observed) {
  const auto beyond =
      std::ranges::count_if(differences, [&](double value) { return value > observed; });
  return static_cast<double>(beyond + 1) / static_cast<double>(differences.size() + 1);
}

}  // namespace longbow::metrics

#include "longbow/metrics/regression.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace longbow::metrics {
namespace {

template <class Error>
double sum_of_errors(std::span<const double> predictions, std::span<const double> targets,
                     const Error& error) {
  if (predictions.size() != targets.size())
    throw std::invalid_argument("regression: predictions and targets differ in number");
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) sum += error(predictions[i] - targets[i]);
  return sum;
}

double squared(double value) {
  return value * value;
}

}  // namespace

double mean_squared_error(std::span<const double> predictions, std::span<const double> targets) {
  return sum_of_errors(predictions, targets, squared) / static_cast<double>(targets.size());
}

double mean_absolute_error(std::span<const double> predictions, std::span<const double> targets) {
  const auto sum =
      sum_of_errors(predictions, targets, [](double error) { return std::abs(error); });
  return sum / static_cast<double>(targets.size());
}

double r_squared(std::span<const double> predictions, std::span<const double> targets) {
  const double errors = sum_of_errors(predictions, targets, squared);
  if (targets.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean =
      std::accumulate(targets.begin(), targets.end(), 0.0) / static_cast<double>(targets.size());
  double spread = 0;
  for (const double target : targets) spread += squared(target - mean);
  if (spread == 0) return errors == 0 ? 1 : 0;
  return 1 - errors / spread;
}

}  // namespace longbow::metrics

#pragma once
#include <span>

namespace longbow::metrics {

// Not a number where there are no values.
double mean_squared_error(std::span<const double> predictions, std::span<const double> targets);
double mean_absolute_error(std::span<const double> predictions, std::span<const double> targets);

// 1 - squared error / variance of the targets. Where the targets are constant: 1 if they are met
// exactly, otherwise 0. Not a number below two values.
double r_squared(std::span<const double> predictions, std::span<const double> targets);

}  // namespace longbow::metrics

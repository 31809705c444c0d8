#pragma once
#include <span>
#include <vector>

namespace longbow::metrics {

// A coefficient with the p value of a two-sided test against no correlation. Both are not a number
// where a side is constant or has fewer than two values.
struct Correlation {
  double value = 0, p_value = 0;
};

Correlation pearson(std::span<const double> x, std::span<const double> y);
// Pearson's coefficient of the ranks. With two values there is no p value.
Correlation spearman(std::span<const double> x, std::span<const double> y);
// Kendall's tau-b, which corrects for ties; O(n log n).
double kendall_tau_b(std::span<const double> x, std::span<const double> y);

// From 1 up; equal values share the mean of their ranks.
std::vector<double> average_ranks(std::span<const double> values);

}  // namespace longbow::metrics

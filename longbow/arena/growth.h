#pragma once
#include <optional>
#include <utility>
#include <vector>

namespace longbow::arena {

using Curve = std::vector<std::pair<double, double>>;  // length, cost; lengths rise

// By linear interpolation between the sorted values.
double quantile(std::vector<double> values, double share);
// Slope of log cost over log length, by least squares; nothing for fewer than two points.
std::optional<double> exponent(const Curve& curve);
// The length from which `curve` stays below `baseline`, interpolated between the measured lengths
// on logarithmic scales; the first length when it always is, nothing when it is not at the last
// one.
std::optional<double> crossover(const Curve& curve, const Curve& baseline);

}  // namespace longbow::arena

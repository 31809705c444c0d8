#include "longbow/arena/growth.h"

#include <algorithm>
#include <cmath>

namespace longbow::arena {

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto next = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[next] - values[below]);
}

std::optional<double> exponent(const Curve& curve) {
  double n = 0, x_sum = 0, y_sum = 0, xx = 0, xy = 0;
  for (const auto& [length, cost] : curve) {
    if (cost <= 0) continue;
    const double x = std::log(length), y = std::log(cost);
    n += 1;
    x_sum += x;
    y_sum += y;
    xx += x * x;
    xy += x * y;
  }
  const double spread = n * xx - x_sum * x_sum;
  if (n < 2 || spread <= 0) return {};
  return (n * xy - x_sum * y_sum) / spread;
}

std::optional<double> crossover(const Curve& curve, const Curve& baseline) {
  Curve lead;  // log length, log of the ratio of costs, where both were measured
  for (const auto& [length, cost] : curve)
    for (const auto& [other_length, other_cost] : baseline)
      if (length == other_length) lead.emplace_back(std::log(length), std::log(cost / other_cost));
  if (lead.empty() || lead.back().second >= 0) return {};
  size_t first = lead.size() - 1;
  while (first > 0 && lead[first - 1].second < 0) --first;
  if (first == 0) return std::exp(lead.front().first);
  const auto [x0, a] = lead[first - 1];
  const auto [x1, b] = lead[first];  // a >= 0 > b
  return std::exp(x0 + (x1 - x0) * a / (a - b));
}

}  // namespace longbow::arena

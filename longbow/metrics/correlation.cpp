#include "longbow/metrics/correlation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace longbow::metrics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check_sizes(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size())
    throw std::invalid_argument("correlation: the two sides differ in number");
}

bool is_constant(std::span<const double> values) {
  return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
}

// The continued fraction of the incomplete beta function, by Lentz's method. It converges quickly
// for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-16;
  constexpr int kMostTerms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) <= kEnough) break;
  }
  return fraction;
}

// I_x(a, b), given y = 1 - x, so that neither end loses digits.
double regularized_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double scale = std::exp(a * std::log(x) + b * std::log(y) + std::lgamma(a + b) -
                                std::lgamma(a) - std::lgamma(b));
  if (x < (a + 1) / (a + b + 2)) return scale * beta_fraction(a, b, x) / a;
  return 1 - scale * beta_fraction(b, a, y) / b;
}

// r of n uncorrelated normal pairs is beyond ±r this often: Student's t with n - 2 degrees of
// freedom, where df / (df + t²) = 1 - r².
double p_value_of(double r, size_t n) {
  const double freedom = static_cast<double>(n) - 2;
  return regularized_beta(freedom / 2, 0.5, (1 - r) * (1 + r), r * r);
}

double pearson_of(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 2 || is_constant(x) || is_constant(y)) return kNone;
  const auto count = static_cast<double>(x.size());
  const double x_mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double y_mean = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double products = 0, x_squares = 0, y_squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - x_mean, dy = y[i] - y_mean;
    products += dx * dy;
    x_squares += dx * dx;
    y_squares += dy * dy;
  }
  return std::clamp(products / (std::sqrt(x_squares) * std::sqrt(y_squares)), -1.0, 1.0);
}

std::vector<size_t> sorted_order(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

// Pairs within runs of equal values, of a sorted range.
template <class Equal>
uint64_t tied_pairs(size_t count, const Equal& equal) {
  uint64_t pairs = 0;
  for (size_t first = 0, i = 1; i <= count; ++i) {
    if (i < count && equal(i - 1, i)) continue;
    pairs += uint64_t{i - first} * (i - first - 1) / 2;
    first = i;
  }
  return pairs;
}

// Sorts, and counts the pairs that were in the wrong order.
uint64_t count_swaps(std::span<double> values, std::span<double> scratch) {
  if (values.size() < 2) return 0;
  const auto half = values.size() / 2;
  auto swaps = count_swaps(values.first(half), scratch.first(half)) +
               count_swaps(values.subspan(half), scratch.subspan(half));
  size_t left = 0, right = half;
  for (auto& next : scratch.first(values.size())) {
    const bool from_right = left == half || (right < values.size() && values[right] < values[left]);
    if (from_right) swaps += half - left;
    next = values[from_right ? right++ : left++];
  }
  std::ranges::copy(scratch.first(values.size()), values.begin());
  return swaps;
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) {
  const auto order = sorted_order(values);
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double rank = static_cast<double>(first + 1 + last) / 2;
    for (; first < last; ++first) ranks[order[first]] = rank;
  }
  return ranks;
}

Correlation pearson(std::span<const double> x, std::span<const double> y) {
  check_sizes(x, y);
  const double r = pearson_of(x, y);
  if (std::isnan(r)) return {kNone, kNone};
  return {r, x.size() == 2 ? 1 : p_value_of(r, x.size())};  // two points are always on a line
}

Correlation spearman(std::span<const double> x, std::span<const double> y) {
  check_sizes(x, y);
  const double r = pearson_of(average_ranks(x), average_ranks(y));
  return {r, std::isnan(r) || x.size() == 2 ? kNone : p_value_of(r, x.size())};
}

// Knight's method: sorted by x, then y, the discordant pairs are the swaps that sort y.
double kendall_tau_b(std::span<const double> x, std::span<const double> y) {
  check_sizes(x, y);
  auto order = sorted_order(y);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return x[i]; });
  const auto count = order.size();
  const auto same_x = [&](size_t i, size_t j) { return x[order[i]] == x[order[j]]; };
  const auto x_ties = tied_pairs(count, same_x);
  const auto both_ties = tied_pairs(
      count, [&](size_t i, size_t j) { return same_x(i, j) && y[order[i]] == y[order[j]]; });
  std::vector<double> sorted(count), scratch(count);
  for (size_t i = 0; i < count; ++i) sorted[i] = y[order[i]];
  const auto discordant = count_swaps(sorted, scratch);
  const auto y_ties = tied_pairs(count, [&](size_t i, size_t j) { return sorted[i] == sorted[j]; });

  const auto pairs = count < 2 ? 0 : uint64_t{count} * (count - 1) / 2;
  const auto untied_x = static_cast<double>(pairs - x_ties);
  const auto untied_y = static_cast<double>(pairs - y_ties);
  if (untied_x == 0 || untied_y == 0) return kNone;
  const double concordant =
      static_cast<double>(pairs + both_ties) - static_cast<double>(x_ties + y_ties + discordant);
  const double difference = concordant - static_cast<double>(discordant);
  return std::clamp(difference / std::sqrt(untied_x) / std::sqrt(untied_y), -1.0, 1.0);
}

}  // namespace longbow::metrics

#include "longbow/report/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace longbow::reporting {
namespace {

template <size_t N>
bool mentions_any(const std::string& text, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](auto word) { return text.find(word) != std::string::npos; });
}

}  // namespace

bool is_fraction(const std::string& metric) {
  constexpr std::array<std::string_view, 5> kFractions = {"accuracy", "f1", "exact_match",
                                                          "precision", "recall"};
  return mentions_any(metric, kFractions);
}

bool lower_is_better(const std::string& metric) {
  constexpr std::array<std::string_view, 6> kCosts = {"loss",  "perplexity", "bits_per",
                                                      "error", "mse",        "mae"};
  return mentions_any(metric, kCosts);
}

double shown_score(double score, const std::string& metric) {
  return is_fraction(metric) ? 100 * score : score;
}

std::string score_unit(const std::string& metric) {
  return is_fraction(metric) ? "%" : "";
}

std::string score_text(double shown, const std::string& metric) {
  auto bounded = metric.find("pearson") != std::string::npos ||
                 metric.find("spearman") != std::string::npos ||
                 metric.find("matthews") != std::string::npos || lower_is_better(metric);
  return bounded ? fmt::format("{:.3f}", shown) : fmt::format("{:.2f}", shown);
}

std::string duration_text(double seconds) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}};
  auto fits = [&](const Unit& unit) { return std::abs(seconds) >= unit.size * (1 - 1e-9); };
  auto unit = std::find_if(kUnits.begin(), kUnits.end(), fits);
  if (unit == kUnits.end()) unit = kUnits.end() - 1;
  auto value = seconds / unit->size;
  return value >= 1000 ? fmt::format("{:.0f} {}", value, unit->name)
                       : fmt::format("{:.3g} {}", value, unit->name);
}

std::string exponent_text(double exponent) {
  return fmt::format("{:.2f}", exponent);
}

std::string exact_text(double value) {
  auto whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace longbow::reporting

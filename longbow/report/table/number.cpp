#include "longbow/report/table/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "longbow/report/table/record.h"

namespace longbow::reporting {
namespace {

template <size_t N>
bool mentions_any(const std::string& text, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](auto word) { return text.find(word) != std::string::npos; });
}

}  // namespace

Measure measure_of(const std::string& metric) {
  constexpr std::array<std::string_view, 5> kShares = {"accuracy", "f1", "exact_match", "precision",
                                                       "recall"};
  constexpr std::array<std::string_view, 6> kCosts = {"loss",  "perplexity", "bits_per",
                                                      "error", "mse",        "mae"};
  // Of replaced tokens: those that were found, and how many there were.
  const bool found = metric == "found", replaced = metric == "replaced";
  return {.name = metric,
          .percent = mentions_any(metric, kShares) || found || replaced,
          .larger_is_better = !mentions_any(metric, kCosts) && !replaced};
}

Measure measure_of(const Cell& cell) {
  auto measure = measure_of(cell.metric);
  measure.percent = cell.percent.value_or(measure.percent);
  measure.larger_is_better = cell.larger_is_better.value_or(measure.larger_is_better);
  return measure;
}

std::string Measure::heading() const {
  return percent ? name + " %" : name;
}

std::string Measure::text(double shown) const {
  constexpr std::array<std::string_view, 3> kCorrelations = {"pearson", "spearman", "matthews"};
  if (percent || (larger_is_better && !mentions_any(name, kCorrelations)))
    return fmt::format("{:.2f}", shown);
  const auto size = std::abs(shown);
  if (size >= 1e4) return fmt::format("{:.4g}", shown);
  return size < 0.1 && size > 0 ? fmt::format("{:.3g}", shown) : fmt::format("{:.3f}", shown);
}

std::string Measure::sentence(double value) const {
  return fmt::format("{} {}{}", name, text(shown(value)), percent ? " %" : "");
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

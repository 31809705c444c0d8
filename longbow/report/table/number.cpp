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

namespace {

// The next character; bytes that are none count as one each.
char32_t next_character(const std::string& utf8, size_t& at) {
  const auto byte = [&](size_t i) {
    return i < utf8.size() ? static_cast<unsigned char>(utf8[i]) : 0U;
  };
  const auto first = byte(at++);
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  char32_t code = more == 0 ? first : first & (0x3FU >> more);
  for (int i = 0; i < more && (byte(at) & 0xC0U) == 0x80U; ++i)
    code = code << 6 | (byte(at++) & 0x3FU);
  return code;
}

template <size_t N>
bool in_any(char32_t code, const std::array<std::pair<char32_t, char32_t>, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return range.first <= code && code <= range.second;
  });
}

}  // namespace

size_t columns_of(const std::string& utf8) {
  constexpr std::array<std::pair<char32_t, char32_t>, 4> kNone = {
      {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kTwo = {{{0x1100, 0x115F},
                                                                  {0x2E80, 0xA4CF},
                                                                  {0xAC00, 0xD7A3},
                                                                  {0xF900, 0xFAFF},
                                                                  {0xFE30, 0xFE6F},
                                                                  {0xFF00, 0xFF60},
                                                                  {0x1F300, 0x1FAFF},
                                                                  {0x20000, 0x3FFFD}}};
  size_t columns = 0;
  for (size_t at = 0; at < utf8.size();) {
    const auto code = next_character(utf8, at);
    columns += in_any(code, kNone) ? 0 : in_any(code, kTwo) ? 2 : 1;
  }
  return columns;
}

std::string shortened(const std::string& utf8, size_t columns) {
  if (columns_of(utf8) <= columns) return utf8;
  std::vector<std::string> characters;
  for (size_t at = 0; at < utf8.size();) {
    const auto start = at;
    next_character(utf8, at);
    characters.push_back(utf8.substr(start, at - start));
  }
  // Takes characters from either end in turn, two from the front for each from the back.
  std::string front, back;
  size_t first = 0, last = characters.size(), room = columns > 0 ? columns - 1 : 0;
  for (size_t turn = 0; first < last; ++turn) {
    const auto& next = turn % 3 == 2 ? characters[last - 1] : characters[first];
    if (columns_of(next) > room) break;
    room -= columns_of(next);
    if (turn % 3 == 2)
      back = characters[--last] + back;
    else
      front += characters[first++];
  }
  return front + "…" + back;
}

std::string padded(const std::string& utf8, size_t columns) {
  return utf8 + std::string(columns - std::min(columns, columns_of(utf8)), ' ');
}

}  // namespace longbow::reporting

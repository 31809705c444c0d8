#include "longbow/corpus/readers/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>

#include "longbow/core/scalar.h"

namespace longbow::corpus {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<double> parse_number(std::string_view text) {
  text = stripped(text);
  if (!is_number_word(text)) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string class_name_of(std::string_view number) {
  if (number.find_first_of(".eE") == std::string_view::npos) return std::string(number);
  const auto value = parse_number(number);
  if (!value) return std::string(number);
  constexpr double kMostExact = 9007199254740992;  // 2^53
  const bool is_whole = std::abs(*value) < kMostExact && std::trunc(*value) == *value;
  return is_whole ? std::to_string(static_cast<int64_t>(*value)) : fmt::format("{}", *value);
}

}  // namespace longbow::corpus

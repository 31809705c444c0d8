#include "longbow/core/log.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>

#include "longbow/core/console.h"

namespace longbow {
namespace {

std::atomic<Level> least_level = Level::info;

std::string label(Level level) {
  switch (level) {
    case Level::debug:
      return "debug: ";
    case Level::info:
      return "";
    case Level::warning:
      return "warning: ";
    case Level::error:
      return "error: ";
  }
  return "";
}

std::string coloured(Level level, const std::string& text) {
  const char* colour = level == Level::error ? "31" : level == Level::warning ? "33" : "2";
  return text.empty() || !console_has_colour() ? text
                                               : fmt::format("\x1b[{}m{}\x1b[0m", colour, text);
}

// Three significant digits and the unit that keeps them before the point.
template <size_t count>
std::string scaled(double value, double step, const char* const (&units)[count]) {
  size_t unit = 0;
  for (; unit + 1 < count && std::abs(value) >= step - 0.5; ++unit) value /= step;
  bool whole = std::abs(value) >= 99.95;
  return (whole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value)) + units[unit];
}

}  // namespace

void set_log_level(Level level) {
  least_level = level;
}

void log(Level level, const std::string& message) {
  if (level < least_level) return;
  print_line(coloured(level, label(level)) + message);
}

std::string human_count(double value) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  return scaled(value, 1000, kUnits);
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace longbow

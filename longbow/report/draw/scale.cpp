#include "longbow/report/draw/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace longbow::reporting {
namespace {

using Limits = std::numeric_limits<double>;

constexpr size_t kFewestTicks = 3;
// Values that differ by less than this share are one value: a mean over seeds differs from equal
// summands by a rounding error.
constexpr double kSameShare = 1e-7;
constexpr double kZero = 1e-290;  // smaller numbers are drawn as zero

bool drawable(const Scale& scale) {
  return std::isfinite(scale.low) && std::isfinite(scale.high) && scale.low < scale.high &&
         (scale.spacing == Spacing::linear || scale.low > 0);
}

double nice_step(double low, double high, int about) {
  auto raw = high / about - low / about;  // high - low may be infinite
  auto power = std::pow(10.0, std::floor(std::log10(raw)));
  if (!(power > 0)) return Limits::denorm_min();
  for (auto factor : {1.0, 2.0, 2.5, 5.0})
    if (raw <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

// Keeps the ticks strictly increasing and inside the limits, whatever rounding has done to them.
void add_tick(std::vector<double>& marks, const Scale& scale, double value) {
  auto inside = std::clamp(value, scale.low, scale.high);
  if (marks.empty() || marks.back() < inside) marks.push_back(inside);
}

// Counts by whole numbers: adding 1 to a large double may not change it.
std::vector<double> linear_ticks(const Scale& scale, int about) {
  auto step = nice_step(scale.low, scale.high, about), slack = 1e-9 * step;
  auto first = std::ceil(scale.low / step - 1e-9);
  std::vector<double> marks;
  for (int i = 0; i <= about + 1; ++i) {
    auto value = (first + i) * step;
    if (!(value <= scale.high + slack)) break;
    add_tick(marks, scale, value == 0 ? 0.0 : value);
  }
  return marks;
}

std::vector<double> decade_ticks(const Scale& scale, int stride,
                                 std::initializer_list<double> factors) {
  auto first = static_cast<int>(std::floor(std::log10(scale.low) / stride)) * stride;
  auto last = static_cast<int>(std::ceil(std::log10(scale.high)));
  std::vector<double> marks;
  for (auto decade = first; decade <= last; decade += stride)
    for (auto factor : factors) {
      auto value = factor * std::pow(10.0, decade);
      if (value >= scale.low * (1 - 1e-9) && value <= scale.high * (1 + 1e-9))
        add_tick(marks, scale, value);
    }
  return marks;
}

std::vector<double> log_ticks(const Scale& scale, int about) {
  auto decades = std::log10(scale.high) - std::log10(scale.low);
  if (decades < 0.5) return linear_ticks(scale, about);
  auto stride = std::max(1, static_cast<int>(std::ceil(decades / about)));
  auto marks = decades < 3 ? decade_ticks(scale, 1, {1, 2, 5}) : decade_ticks(scale, stride, {1});
  return marks.size() < kFewestTicks && decades < 3 ? linear_ticks(scale, about) : marks;
}

std::vector<double> spaced_ticks(const Scale& scale, int about) {
  return scale.spacing == Spacing::linear ? linear_ticks(scale, about) : log_ticks(scale, about);
}

Scale fitted_logarithm(double low, double high) {
  auto margin = std::max(1.15, std::exp(0.06 * (std::log(high) - std::log(low))));
  return {Spacing::logarithmic, std::max(low / margin, Limits::denorm_min()),
          std::clamp(high * margin, kZero, Limits::max())};
}

Scale fitted_line(double low, double high) {
  auto size = std::max(std::abs(low), std::abs(high));
  if (high / 2 - low / 2 <= std::max(size * kSameShare, kZero) / 2) {
    auto half = size <= kZero ? 1 : size * 0.1;
    low = std::max(low - half, Limits::lowest());
    high = std::min(high + half, Limits::max());
  }
  auto step = nice_step(low, high, 6);
  auto below = std::floor(low / step + 1e-9) * step, above = std::ceil(high / step - 1e-9) * step;
  return {Spacing::linear, std::isfinite(below) ? std::min(low, below) : low,
          std::isfinite(above) ? std::max(high, above) : high};
}

}  // namespace

double Scale::at(double value) const {
  if (spacing == Spacing::logarithmic) {
    auto all = std::log(high) - std::log(low);
    return all > 0 ? (std::log(value) - std::log(low)) / all : 0.5;
  }
  if (std::isfinite(high - low)) return (value - low) / (high - low);
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

Scale fitted(Spacing spacing, const std::vector<double>& values) {
  auto logarithmic = spacing == Spacing::logarithmic;
  std::vector<double> usable;
  for (auto value : values)
    if (std::isfinite(value) && (!logarithmic || value > 0)) usable.push_back(value);
  if (usable.empty()) return {spacing, logarithmic ? 1.0 : 0.0, logarithmic ? 10.0 : 1.0};
  auto [low, high] = std::minmax_element(usable.begin(), usable.end());
  return logarithmic ? fitted_logarithm(*low, *high) : fitted_line(*low, *high);
}

std::vector<double> ticks(const Scale& scale, int about) {
  if (!drawable(scale)) return {};
  auto marks = spaced_ticks(scale, about);
  return marks.size() < kFewestTicks ? spaced_ticks(scale, 2 * about) : marks;
}

std::vector<double> binary_ticks(const Scale& scale, int about) {
  if (!drawable(scale) || scale.low <= 0) return {};
  auto first = static_cast<int>(std::ceil(std::log2(scale.low) - 1e-9));
  auto last = static_cast<int>(std::floor(std::log2(scale.high) + 1e-9));
  auto stride = std::max(1, (last - first + about - 1) / about);
  std::vector<double> marks;
  for (auto exponent = first; exponent <= last; exponent += stride)
    add_tick(marks, scale, std::ldexp(1.0, exponent));
  if (marks.size() >= kFewestTicks) return marks;
  // Too narrow for powers of two: round numbers of KiB, MiB, …
  auto unit = std::ldexp(1.0, std::max(0, 10 * (last / 10)));
  marks.clear();
  for (auto mark : ticks({Spacing::linear, scale.low / unit, scale.high / unit}, about))
    add_tick(marks, scale, mark * unit);
  return marks;
}

std::string plain_tick(double value, int digits) {
  auto written = [&](double number, const char* unit) {
    auto text = fmt::format("{:.{}g}{}", number, digits, unit);
    auto exponent = text.find("e-0");
    return exponent == std::string::npos ? text : text.erase(exponent + 2, 1);
  };
  auto size = std::abs(value);
  if (size >= 1e9 && size < 1e15) return written(value / 1e9, "G");
  if (size >= 1e6 && size < 1e9) return written(value / 1e6, "M");
  if (size >= 1e4 && size < 1e6) return written(value / 1e3, "k");
  return written(value, "");
}

TickText tick_text(const std::vector<double>& marks) {
  double largest = 0, step = Limits::max();
  for (size_t i = 0; i < marks.size(); ++i) {
    largest = std::max(largest, std::abs(marks[i]));
    if (i > 0) step = std::min(step, marks[i] - marks[i - 1]);
  }
  // Digits from the first one of the largest mark to a hundredth of a step.
  auto wanted = step > 0 && largest > 0 ? std::ceil(std::log10(largest) - std::log10(step)) + 2 : 4;
  auto digits = static_cast<int>(std::clamp(wanted, 4.0, 15.0));
  return [digits](double value) { return plain_tick(value, digits); };
}

}  // namespace longbow::reporting

#include "longbow/report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace longbow::reporting {
namespace {

double nice_step(double span, int about) {
  auto raw = span / about;
  auto power = std::pow(10.0, std::floor(std::log10(raw)));
  for (auto factor : {1.0, 2.0, 2.5, 5.0})
    if (raw <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

std::vector<double> linear_ticks(const Scale& scale, int about) {
  auto step = nice_step(scale.high - scale.low, about);
  std::vector<double> result;
  for (auto i = std::ceil(scale.low / step - 1e-9); i * step <= scale.high + 1e-9 * step; ++i)
    result.push_back(i == 0 ? 0.0 : i * step);
  return result;
}

std::vector<double> log_ticks(const Scale& scale, int about) {
  auto first = static_cast<int>(std::floor(std::log10(scale.low)));
  auto last = static_cast<int>(std::ceil(std::log10(scale.high)));
  auto decades = std::log10(scale.high / scale.low);
  if (decades < 0.5) return linear_ticks(scale, about);
  auto stride = std::max(1, static_cast<int>(std::ceil(decades / about)));
  auto factors = decades < 3 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  std::vector<double> result;
  for (auto decade = first; decade <= last; decade += stride)
    for (auto factor : factors) {
      auto value = factor * std::pow(10.0, decade);
      if (value >= scale.low * (1 - 1e-9) && value <= scale.high * (1 + 1e-9))
        result.push_back(value);
    }
  return result;
}

}  // namespace

double Scale::at(double value) const {
  if (spacing == Spacing::linear) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

Scale fitted(Spacing spacing, const std::vector<double>& values) {
  auto logarithmic = spacing == Spacing::logarithmic;
  std::vector<double> usable;
  for (auto value : values)
    if (std::isfinite(value) && (!logarithmic || value > 0)) usable.push_back(value);
  if (usable.empty()) return {spacing, logarithmic ? 1.0 : 0.0, logarithmic ? 10.0 : 1.0};
  auto [least, greatest] = std::minmax_element(usable.begin(), usable.end());
  auto low = *least, high = *greatest;
  if (logarithmic) {
    auto margin = std::max(1.15, std::pow(high / low, 0.06));
    return {spacing, low / margin, high * margin};
  }
  if (high == low) {
    auto half = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= half;
    high += half;
  }
  auto step = nice_step(high - low, 6);
  return {spacing, std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step};
}

std::vector<double> ticks(const Scale& scale, int about) {
  return scale.spacing == Spacing::linear ? linear_ticks(scale, about) : log_ticks(scale, about);
}

std::vector<double> binary_ticks(const Scale& scale, int about) {
  auto first = static_cast<int>(std::ceil(std::log2(scale.low) - 1e-9));
  auto last = static_cast<int>(std::floor(std::log2(scale.high) + 1e-9));
  auto stride = std::max(1, (last - first + about - 1) / about);
  std::vector<double> result;
  for (auto exponent = first; exponent <= last; exponent += stride)
    result.push_back(std::ldexp(1.0, exponent));
  return result;
}

std::string plain_tick(double value) {
  auto size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

}  // namespace longbow::reporting

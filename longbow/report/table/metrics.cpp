#include "longbow/report/table/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/listing.h"

namespace longbow::reporting {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
const std::set<std::string> kNotPlotted = {"step", "split", "epoch", "seed", "time", "seconds"};

Curve& curve_of(std::vector<Curve>& curves, const Curve& origin, const std::string& split,
                const std::string& quantity) {
  for (auto& curve : curves)
    if (curve.split == split && curve.quantity == quantity) return curve;
  auto& curve = curves.emplace_back(origin);
  curve.split = split;
  curve.quantity = quantity;
  return curve;
}

void add_line(std::vector<Curve>& curves, const Curve& origin, const Node& line,
              const Place& place) {
  auto step = line.find("step"), split = line.find("split");
  if (!step || !split) throw UserError(place, "a line of metrics needs 'step' and 'split'");
  auto x = as_number(*step, "step");
  auto part = as_string(*split, "split");
  for (auto& [key, value] : line.entries) {
    if (kNotPlotted.contains(key)) continue;
    const bool missing = is_missing_number(value);
    if (!missing && (!value.is_scalar() || value.quoted)) continue;
    if (value.text == "true" || value.text == "false") continue;
    curve_of(curves, origin, part, key)
        .points.emplace_back(x, missing ? kNoValue : as_number(value, longbow::shortened(key)));
  }
}

void note_gaps(const std::vector<Curve>& curves, const std::string& path,
               std::vector<std::string>& notes) {
  for (auto& curve : curves) {
    auto gap = [](const auto& point) { return std::isnan(point.second); };
    auto first = std::find_if(curve.points.begin(), curve.points.end(), gap);
    if (first == curve.points.end()) continue;
    notes.push_back(fmt::format("{}: {} ({}) is not finite at {} of {} steps, first at step {:.0f}",
                                path, curve.quantity, curve.split,
                                std::count_if(first, curve.points.end(), gap), curve.points.size(),
                                first->first));
  }
}

bool is_json(const std::string& line) {
  try {
    parse_json(line, "");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// A line of a longer file, with its true place in every value and every error.
Node parsed(const std::string& line, const Place& place) try {
  auto node = parse_json(line, place.file);
  for (auto& [key, value] : node.entries) value.place = place;
  return node;
} catch (const UserError&) {
  return parse_json(std::string(static_cast<size_t>(place.line - 1), '\n') + line, place.file);
}

struct Spread {
  double sum = 0, low = 0, high = 0;
  int64_t count = 0;
  void add(double value) {
    if (std::isnan(value)) return;
    low = count ? std::min(low, value) : value;
    high = count ? std::max(high, value) : value;
    sum += value;
    ++count;
  }
  Band::Point at(double step) const {
    if (count == 0) return {step, kNoValue, kNoValue, kNoValue};
    return {step, sum / static_cast<double>(count), low, high};
  }
};

std::vector<Band::Point> thinned(const std::vector<Band::Point>& points, size_t limit) {
  if (points.size() <= limit) return points;
  std::vector<Band::Point> result;
  for (size_t i = 0; i < limit; ++i) {
    auto first = i * points.size() / limit, last = (i + 1) * points.size() / limit;
    Spread step, mean, low, high;
    for (auto j = first; j < last; ++j) {
      step.add(points[j].step);
      mean.add(points[j].mean);
      low.add(points[j].low);
      high.add(points[j].high);
    }
    auto average = [](const Spread& spread) { return spread.at(0).mean; };
    result.push_back({average(step), average(mean), average(low), average(high)});
  }
  return result;
}

}  // namespace

bool is_missing_number(const Node& value) {
  if (value.is_null()) return true;
  return value.is_scalar() &&
         (value.text == ".inf" || value.text == "-.inf" || value.text == ".nan");
}

std::vector<Curve> read_curves(const std::string& path, const Curve& origin,
                               std::vector<std::string>& notes) {
  return parse_curves(read_file(path), path, origin, notes);
}

std::vector<Curve> parse_curves(const std::string& text, const std::string& path,
                                const Curve& origin, std::vector<std::string>& notes) {
  std::vector<Curve> curves;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    Place place{path, ++number};
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (lines.eof() && !is_json(line)) {
      notes.push_back(place.str() + ": the last line is incomplete and was left out");
      break;
    }
    add_line(curves, origin, parsed(line, place), place);
  }
  note_gaps(curves, path, notes);
  return curves;
}

std::vector<Band> bands(const std::vector<Curve>& curves, const std::string& task,
                        const std::string& quantity, size_t limit) {
  std::vector<Band> result;
  std::vector<std::map<double, Spread>> spreads;
  for (auto& curve : curves) {
    if (curve.task != task || curve.quantity != quantity) continue;
    auto same = [&](const Band& band) {
      return band.label == curve.label && band.split == curve.split;
    };
    auto found = std::find_if(result.begin(), result.end(), same);
    auto index = static_cast<size_t>(found - result.begin());
    if (found == result.end()) {
      result.push_back({.label = curve.label, .split = curve.split, .points = {}});
      spreads.emplace_back();
    }
    for (auto& [step, value] : curve.points) spreads[index][step].add(value);
  }
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<Band::Point> points;
    for (auto& [step, spread] : spreads[i]) points.push_back(spread.at(step));
    result[i].points = thinned(points, limit);
  }
  return result;
}

}  // namespace longbow::reporting

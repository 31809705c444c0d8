#include "longbow/report/draw/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "longbow/report/draw/legend.h"
#include "longbow/report/draw/svg.h"

namespace longbow::reporting {
namespace {

constexpr double kLabelSpacing = 15, kLongestLabel = 150, kAxisSpace = 46;
constexpr size_t kMostDots = 12, kMostLabels = 20;

using Points = std::vector<Series::Point>;

bool drawable(const LinePlot& plot, const Series::Point& point) {
  if (!std::isfinite(point.x) || !std::isfinite(point.y)) return false;
  return (plot.x.scale.spacing == Spacing::linear || point.x > 0) &&
         (plot.y.scale.spacing == Spacing::linear || point.y > 0);
}

// The runs of neighbours that have a place on the axes.
std::vector<Points> pieces(const LinePlot& plot, const Series& series) {
  std::vector<Points> result;
  bool open = false;
  for (auto& point : series.points) {
    auto shown = drawable(plot, point);
    if (shown && !open) result.emplace_back();
    if (shown) result.back().push_back(point);
    open = shown;
  }
  return result;
}

double clamped(const Frame& frame, double value) {
  auto& scale = frame.y.scale;
  return frame.py(std::clamp(value, scale.low, scale.high));
}

void draw_band(Drawing& drawing, const Frame& frame, const Series& series, const Points& points) {
  auto spreads = [](const Series::Point& point) { return point.high > point.low; };
  if (series.faint || points.size() < 2 || std::none_of(points.begin(), points.end(), spreads))
    return;
  std::string path;
  for (auto& point : points)
    path += fmt::format("{:.1f},{:.1f} ", frame.px(point.x), clamped(frame, point.high));
  for (auto point = points.rbegin(); point != points.rend(); ++point)
    path += fmt::format("{:.1f},{:.1f} ", frame.px(point->x), clamped(frame, point->low));
  drawing.add(fmt::format(R"(<polygon points="{}" class="band" style="fill:{}"/>)", path,
                          series.look.colour));
}

void draw_line(Drawing& drawing, const Frame& frame, const Series& series, const Points& points) {
  std::string path;
  for (auto& point : points)
    path += fmt::format("{:.1f},{:.1f} ", frame.px(point.x), frame.py(point.y));
  auto dash = series.look.dash.empty() ? "" : fmt::format(";stroke-dasharray:{}", series.look.dash);
  auto kind = series.faint ? "line faint" : series.look.bold ? "line bold" : "line";
  drawing.add(fmt::format(R"(<polyline points="{}" class="{}" style="stroke:{}{}"/>)", path, kind,
                          series.look.colour, dash));
  auto few = series.points.size() <= kMostDots && !series.faint;
  if (!few && points.size() > 1) return;
  for (auto& point : points)
    drawing.add(fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="{}" {}><title>{}: {}, {}</title></circle>)",
        frame.px(point.x), frame.py(point.y), series.look.bold ? 4 : 3,
        dot_style(series.look.colour, series.hollow), escaped(series.label),
        escaped(frame.x.text(point.x)), escaped(frame.y.text(point.y))));
}

// One label for all series of a name, where its last point is.
struct Label {
  std::string words;
  Look look;
  double x, y;
};

std::vector<Label> labels_of(const LinePlot& plot, const Frame& frame) {
  std::vector<Label> labels;
  for (auto& series : plot.series) {
    auto drawn = pieces(plot, series);
    auto same = [&](const Label& label) { return label.words == series.label; };
    if (series.faint || drawn.empty() || std::any_of(labels.begin(), labels.end(), same)) continue;
    auto& last = drawn.back().back();
    labels.push_back({series.label, series.look, frame.px(last.x), frame.py(last.y)});
  }
  return labels;
}

void draw_labels(Drawing& drawing, const Frame& frame, const std::vector<Label>& labels) {
  std::vector<double> wanted;
  for (auto& label : labels) wanted.push_back(label.y);
  auto places = spread(wanted, kLabelSpacing, frame.area.top, frame.area.bottom);
  for (size_t i = 0; i < labels.size(); ++i) {
    auto& label = labels[i];
    auto x = frame.area.right + 14;
    drawing.add(fmt::format(
        R"(<polyline points="{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}" class="leader" style="stroke:{}"/>)",
        label.x + 5, label.y, x - 8, places[i], x - 3, places[i], label.look.colour));
    drawing.text(x, places[i] + 4, label.words, Drawing::Anchor::start,
                 label.look.bold ? "label strong" : "label", label.look.colour);
  }
}

// What lines and dots of each kind look like; nothing where there is one kind.
std::vector<LegendEntry> kinds_of(const LinePlot& plot) {
  std::vector<LegendEntry> kinds;
  for (auto& series : plot.series) {
    auto known = [&](const LegendEntry& kind) { return kind.words == series.kind; };
    if (series.kind.empty() || std::any_of(kinds.begin(), kinds.end(), known)) continue;
    using Sign = LegendEntry::Sign;
    kinds.push_back({.words = series.kind,
                     .look = {.colour = "currentColor", .dash = ""},
                     .sign = series.points.size() > 1 ? Sign::line
                             : series.hollow          ? Sign::ring
                                                      : Sign::dot,
                     .faint = series.faint});
  }
  if (kinds.size() < 2) kinds.clear();
  return kinds;
}

// Names from top to bottom of the right edge, as the lines end there.
std::vector<LegendEntry> names_of(std::vector<Label> labels) {
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.y < b.y; });
  std::vector<LegendEntry> names;
  for (auto& label : labels) names.push_back({.words = label.words, .look = label.look});
  return names;
}

void draw_rings(Drawing& drawing, const Frame& frame, const LinePlot& plot) {
  for (auto& ring : plot.rings) {
    if (!drawable(plot, {ring.x, ring.y, ring.y, ring.y})) continue;
    auto x = frame.px(ring.x), y = frame.py(ring.y);
    if (x < frame.area.left - 1 || x > frame.area.right + 1) continue;
    drawing.add(fmt::format(
        R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="drop" style="stroke:{3}"/>)"
        R"(<circle cx="{0:.1f}" cy="{1:.1f}" r="6.5" class="ring" style="stroke:{3}"><title>{4}</title></circle>)",
        x, y, frame.area.bottom, ring.colour, escaped(ring.words)));
  }
}

struct Layout {
  double width, height;
  Box area;
  bool labels_beside;
};

Layout layout_of(const LinePlot& plot, Width width) {
  std::set<std::string> names;
  double longest = 0;
  for (auto& series : plot.series) {
    if (series.faint) continue;
    names.insert(series.label);
    longest = std::max(longest, text_width(series.label));
  }
  auto wide = width == Width::wide;
  auto beside = wide && names.size() <= kMostLabels && longest <= kLongestLabel;
  auto total = wide ? 540.0 : 360.0;
  auto rows = beside ? static_cast<double>(names.size()) : 0;
  auto height = wide ? std::max(330.0, 100 + kLabelSpacing * rows) : 280.0;
  auto last = plot.x.marks.empty() ? 0 : text_width(plot.x.text(plot.x.marks.back())) / 2;
  auto margin = beside ? std::max(60.0, 24 + longest) : std::max(12.0, last);
  return {
      total, height, {widest_text(plot.y) + 14, 36, total - margin, height - kAxisSpace}, beside};
}

}  // namespace

std::string line_plot(const LinePlot& plot, Width width) {
  auto layout = layout_of(plot, width);
  Frame frame{.area = layout.area, .x = plot.x, .y = plot.y};
  Drawing drawing(layout.width, layout.height, plot.title, plot.description, width);
  frame.draw(drawing);
  for (auto& series : plot.series)
    for (auto& points : pieces(plot, series)) draw_band(drawing, frame, series, points);
  for (auto& series : plot.series)
    for (auto& points : pieces(plot, series)) draw_line(drawing, frame, series, points);
  draw_rings(drawing, frame, plot);
  auto labels = labels_of(plot, frame);
  if (layout.labels_beside) draw_labels(drawing, frame, labels);
  draw_legend(drawing, kinds_of(plot));
  if (!layout.labels_beside) draw_legend(drawing, names_of(labels));
  return drawing.str();
}

}  // namespace longbow::reporting

#include "longbow/report/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longbow/report/svg.h"

namespace longbow::reporting {
namespace {

constexpr double kWidth = 540, kLabelSpacing = 15;
constexpr size_t kMostDots = 12;

bool drawable(const LinePlot& plot, const Series::Point& point) {
  if (!std::isfinite(point.x) || !std::isfinite(point.y)) return false;
  return (plot.x.scale.spacing == Spacing::linear || point.x > 0) &&
         (plot.y.scale.spacing == Spacing::linear || point.y > 0);
}

std::vector<Series::Point> drawn(const LinePlot& plot, const Series& series) {
  std::vector<Series::Point> result;
  for (auto& point : series.points)
    if (drawable(plot, point)) result.push_back(point);
  return result;
}

double clamped(const Frame& frame, double value) {
  auto& scale = frame.y.scale;
  return frame.py(std::clamp(value, scale.low, scale.high));
}

void draw_band(Drawing& drawing, const Frame& frame, const Series& series,
               const std::vector<Series::Point>& points) {
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

void draw_line(Drawing& drawing, const Frame& frame, const Series& series,
               const std::vector<Series::Point>& points) {
  std::string path;
  for (auto& point : points)
    path += fmt::format("{:.1f},{:.1f} ", frame.px(point.x), frame.py(point.y));
  auto dash = series.look.dash.empty() ? "" : fmt::format(";stroke-dasharray:{}", series.look.dash);
  auto kind = series.faint ? "line faint" : series.look.bold ? "line bold" : "line";
  drawing.add(fmt::format(R"(<polyline points="{}" class="{}" style="stroke:{}{}"/>)", path, kind,
                          series.look.colour, dash));
  if (points.size() > (series.faint ? 1 : kMostDots)) return;
  for (auto& point : points)
    drawing.add(fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="{}" style="fill:{}"><title>{}: {}, {}</title></circle>)",
        frame.px(point.x), frame.py(point.y), series.look.bold ? 4 : 3, series.look.colour,
        escaped(series.label), escaped(frame.x.text(point.x)), escaped(frame.y.text(point.y))));
}

struct EndLabel {
  std::string words, colour;
  double x, y;
  bool bold;
};

void draw_labels(Drawing& drawing, const Frame& frame, const std::vector<EndLabel>& labels) {
  std::vector<double> wanted;
  for (auto& label : labels) wanted.push_back(label.y);
  auto places = spread(wanted, kLabelSpacing, frame.area.top, frame.area.bottom);
  for (size_t i = 0; i < labels.size(); ++i) {
    auto& label = labels[i];
    auto x = frame.area.right + 14;
    drawing.add(fmt::format(
        R"(<polyline points="{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}" class="leader" style="stroke:{}"/>)",
        label.x + 5, label.y, x - 8, places[i], x - 3, places[i], label.colour));
    drawing.text(x, places[i] + 4, label.words, Drawing::Anchor::start,
                 label.bold ? "label strong" : "label", label.colour);
  }
}

void draw_legend(Drawing& drawing, const Frame& frame, const LinePlot& plot) {
  std::vector<const Series*> kinds;
  for (auto& series : plot.series) {
    auto known = [&](const Series* other) { return other->kind == series.kind; };
    if (!series.kind.empty() && std::none_of(kinds.begin(), kinds.end(), known))
      kinds.push_back(&series);
  }
  if (kinds.size() < 2) return;
  auto x = frame.area.right;
  for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) {
    auto y = frame.area.top - 18;
    drawing.text(x, y + 4, (*kind)->kind, Drawing::Anchor::end, "tick");
    x -= text_width((*kind)->kind) + 6;
    if ((*kind)->points.size() > 1) {
      drawing.line(x - 26, y, x, y, (*kind)->faint ? "line faint key" : "line key");
      x -= 42;
    } else {
      drawing.add(fmt::format(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" style="fill:currentColor"/>)", x - 3, y));
      x -= 22;
    }
  }
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

}  // namespace

std::string line_plot(const LinePlot& plot) {
  auto labelled = static_cast<double>(std::count_if(
      plot.series.begin(), plot.series.end(), [](const Series& series) { return !series.faint; }));
  double margin = 60;
  for (auto& series : plot.series) margin = std::max(margin, 24 + text_width(series.label));
  auto height = std::max(330.0, 100 + kLabelSpacing * labelled);
  Frame frame{.area = {66, 36, kWidth - margin, height - 46}, .x = plot.x, .y = plot.y};
  Drawing drawing(kWidth, height, plot.title, plot.description);
  frame.draw(drawing);
  std::vector<EndLabel> labels;
  for (auto& series : plot.series) draw_band(drawing, frame, series, drawn(plot, series));
  for (auto& series : plot.series) {
    auto points = drawn(plot, series);
    if (points.empty()) continue;
    draw_line(drawing, frame, series, points);
    auto same = [&](const EndLabel& label) { return label.words == series.label; };
    if (!series.faint && std::none_of(labels.begin(), labels.end(), same))
      labels.push_back({series.label, series.look.colour, frame.px(points.back().x),
                        frame.py(points.back().y), series.look.bold});
  }
  draw_rings(drawing, frame, plot);
  draw_labels(drawing, frame, labels);
  draw_legend(drawing, frame, plot);
  return drawing.str();
}

}  // namespace longbow::reporting

#include "longbow/report/draw/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "longbow/core/columns.h"
#include "longbow/report/draw/scale.h"
#include "longbow/report/draw/svg.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

constexpr int64_t kMostCells = 64;
constexpr int kShades = 16;
constexpr size_t kMostNames = 40, kLongestName = 10;
constexpr double kSide = 160, kGap = 18, kLeft = 80, kTop = 66, kBottom = 16;
constexpr double kBarGap = 6, kBar = 8, kBarText = 42, kTitle = 18;

// At most kMostCells on either side; cell r covers the rows r rows / cells to (r + 1) rows / cells.
HeatMap reduced(const HeatMap& map) {
  HeatMap small = {.rows = std::min(map.rows, kMostCells),
                   .columns = std::min(map.columns, kMostCells)};
  for (int64_t r = 0; r < small.rows; ++r)
    for (int64_t c = 0; c < small.columns; ++c) {
      const int64_t top = r * map.rows / small.rows, bottom = (r + 1) * map.rows / small.rows,
                    left = c * map.columns / small.columns,
                    right = (c + 1) * map.columns / small.columns;
      double sum = 0;
      for (int64_t i = top; i < bottom; ++i)
        for (int64_t j = left; j < right; ++j)
          sum += map.values[static_cast<size_t>(i * map.columns + j)];
      small.values.push_back(
          static_cast<float>(sum / static_cast<double>((bottom - top) * (right - left))));
    }
  return small;
}

// White to a dark red.
std::string shade_colour(int shade) {
  const double t = static_cast<double>(shade) / (kShades - 1);
  const auto mix = [&](double from, double to) {
    return static_cast<int>(std::lround(from + t * (to - from)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 165), mix(245, 15), mix(240, 21));
}

// Of the values that are finite.
struct Range {
  double low = 0, high = 0;
  explicit Range(const std::vector<float>& values) {
    std::vector<float> finite;
    std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
                 [](float value) { return std::isfinite(value); });
    if (finite.empty()) return;
    const auto [least, greatest] = std::minmax_element(finite.begin(), finite.end());
    low = *least;
    high = *greatest;
  }
  double span() const { return high - low; }
};

constexpr int kBlank = -1;

// One path a shade; cells of one shade that are neighbours are one rectangle.
std::string cells(const HeatMap& map, const Range& range, double left, double top) {
  const double width = kSide / static_cast<double>(map.columns),
               height = kSide / static_cast<double>(map.rows);
  const auto shade = [&](int64_t r, int64_t c) {
    const double value = map.values[static_cast<size_t>(r * map.columns + c)];
    if (!std::isfinite(value)) return kBlank;
    if (!(range.span() > 0)) return 0;
    return static_cast<int>(std::lround((value - range.low) / range.span() * (kShades - 1)));
  };
  std::vector<std::string> paths(kShades);
  for (int64_t r = 0; r < map.rows; ++r)
    for (int64_t c = 0, end = 0; c < map.columns; c = end) {
      const int own = shade(r, c);
      for (end = c; end < map.columns && shade(r, end) == own; ++end) continue;
      if (own == kBlank) continue;
      const double run = width * static_cast<double>(end - c);
      paths[static_cast<size_t>(own)] += fmt::format(
          "M{:.2f} {:.2f}h{:.2f}v{:.2f}h-{:.2f}z", left + width * static_cast<double>(c),
          top + height * static_cast<double>(r), run, height, run);
    }
  std::string text = R"(<g shape-rendering="crispEdges">)";
  for (int s = 0; s < kShades; ++s)
    if (const auto& path = paths[static_cast<size_t>(s)]; !path.empty())
      text += fmt::format(R"(<path d="{}" fill="{}"/>)", path, shade_colour(s));
  return text +
         fmt::format(
             R"(</g><rect x="{:.1f}" y="{:.1f}" width="{:.0f}" height="{:.0f}" fill="none" stroke="#888"/>)",
             left, top, kSide, kSide);
}

std::string label(double x, double y, const std::string& words, const char* anchor, double size,
                  const std::string& more = "") {
  return fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-family="sans-serif" font-size="{:g}" fill="#444"{}>{}</text>)",
      x, y, anchor, size, more, escaped(words));
}

// What the shades mean: the map's largest value on top and its smallest below; equal values have
// one shade and one number.
std::string colour_bar(const Range& range, double left, double top) {
  const bool several = range.span() > 0;
  const auto value = [&](double number, double y) {
    return label(left + kBar + 3, y, plain_tick(number, 3), "start", 10);
  };
  return fmt::format(
             R"x(<path d="M{:.1f} {:.1f}h{:.0f}v{:.0f}h-{:.0f}z" fill="{}" stroke="#888"/>)x", left,
             top, kBar, kSide, kBar, several ? "url(#shades)" : shade_colour(0)) +
         (several ? value(range.high, top + 9) : "") + value(range.low, top + kSide);
}

std::string shades() {
  return fmt::format(
      R"(<defs><linearGradient id="shades" x1="0" y1="1" x2="0" y2="0"><stop offset="0" stop-color="{}"/><stop offset="1" stop-color="{}"/></linearGradient></defs>)",
      shade_colour(0), shade_colour(kShades - 1));
}

// The names that are drawn, cut where they are long; none where there are too many.
std::vector<std::string> shown(const std::vector<std::string>& names) {
  if (names.size() > kMostNames) return {};
  auto result = names;
  for (auto& name : result) name = shortened(name, kLongestName);
  return result;
}

double name_size(size_t names) {
  return std::min(10.0, 0.95 * kSide / static_cast<double>(names));
}

double room_for(const std::vector<std::string>& names) {
  double room = 0;
  for (const auto& name : shown(names))
    room =
        std::max(room, 4 + 0.62 * name_size(names.size()) * static_cast<double>(columns_of(name)));
  return room;
}

std::string row_names(const HeatMap& map, double left, double top) {
  const auto names = shown(map.row_names);
  const double size = name_size(names.size()), height = kSide / static_cast<double>(names.size());
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += label(left - 4, top + height * (static_cast<double>(i) + 0.5) + 0.35 * size, names[i],
                  "end", size);
  return text;
}

// Upright, read from below.
std::string column_names(const HeatMap& map, double left, double bottom) {
  const auto names = shown(map.column_names);
  const double size = name_size(names.size()), width = kSide / static_cast<double>(names.size());
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    const double x = left + width * (static_cast<double>(i) + 0.5) + 0.35 * size, y = bottom + 4;
    text += label(x, y, names[i], "end", size,
                  fmt::format(R"x( transform="rotate(-90 {:.1f} {:.1f})")x", x, y));
  }
  return text;
}

void check(const HeatGrid& grid) {
  const size_t rows = grid.row_labels.size(), columns = grid.column_labels.size();
  if (grid.maps.size() != rows * columns)
    throw std::invalid_argument(
        fmt::format("heat grid: {} maps for {} rows of {}", grid.maps.size(), rows, columns));
  const auto fits = [](const std::vector<std::string>& names, int64_t count) {
    return names.empty() || names.size() == static_cast<size_t>(count);
  };
  for (size_t i = 0; i < grid.maps.size(); ++i) {
    const auto& map = grid.maps[i];
    if (map.values.size() != static_cast<size_t>(map.rows * map.columns))
      throw std::invalid_argument(fmt::format("heat grid: map {} has {} values for {} x {}", i,
                                              map.values.size(), map.rows, map.columns));
    if (!fits(map.row_names, map.rows) || !fits(map.column_names, map.columns))
      throw std::invalid_argument(fmt::format("heat grid: map {} has {} and {} names for {} x {}",
                                              i, map.row_names.size(), map.column_names.size(),
                                              map.rows, map.columns));
  }
}

// Where the maps are: names and titles take room on the left and below each row.
struct Layout {
  double names = 0, titles = 0, left = kLeft;
  std::vector<double> tops = {};   // of each row, and the end of the last
  std::vector<double> below = {};  // room for the names of the columns, of each row

  explicit Layout(const HeatGrid& grid) {
    const size_t columns = grid.column_labels.size();
    for (const auto& words : grid.row_labels) left = std::max(left, 16 + text_width(words));
    for (const auto& map : grid.maps) {
      names = std::max(names, room_for(map.row_names));
      if (!map.row_title.empty()) titles = kTitle;
    }
    left += names + titles;
    double top = kTop;
    for (size_t r = 0; r < grid.row_labels.size(); ++r) {
      tops.push_back(top);
      double room = 0, title = 0;
      for (size_t c = 0; c < columns; ++c) {
        const auto& map = grid.maps[r * columns + c];
        room = std::max(room, room_for(map.column_names));
        if (!map.column_title.empty()) title = kTitle;
      }
      below.push_back(room);
      top += kSide + room + title + kGap;
    }
    tops.push_back(top);
  }
  double x(size_t column) const {
    return left + (kSide + kBarGap + kBar + kBarText + kGap) * static_cast<double>(column);
  }
};

// One map with what is around it; `row` and `column` are its place.
std::string map_with_axes(const HeatMap& map, const Layout& place, size_t row, size_t column) {
  const double left = place.x(column), top = place.tops[row];
  const auto small = reduced(map);
  const Range range(small.values);
  auto text = cells(small, range, left, top) + colour_bar(range, left + kSide + kBarGap, top) +
              column_names(map, left, top + kSide);
  if (!map.column_title.empty())
    text += label(left + kSide / 2, top + kSide + place.below[row] + 14, map.column_title, "middle",
                  11);
  if (column > 0) return text;
  text += row_names(map, left, top);
  if (map.row_title.empty()) return text;
  const double x = left - place.names - 6, y = top + kSide / 2;
  return text + label(x, y, map.row_title, "middle", 11,
                      fmt::format(R"x( transform="rotate(-90 {:.1f} {:.1f})")x", x, y));
}

}  // namespace

std::string heat_grid(const HeatGrid& grid) {
  check(grid);
  const size_t rows = grid.row_labels.size(), columns = grid.column_labels.size();
  const Layout place(grid);
  const double width = std::max(place.x(columns), 20 + 1.5 * text_width(grid.title));
  Drawing drawing(width, place.tops.back() + kBottom, grid.title, grid.description);
  drawing.add(fmt::format(R"(<path d="M0 0h{:.0f}v{:.0f}h-{:.0f}z" fill="#fff"/>)", drawing.width(),
                          drawing.height(), drawing.width()));
  drawing.add(shades());
  drawing.add(label(width / 2, 28, grid.title, "middle", 18));
  for (size_t r = 0; r < rows; ++r)
    drawing.add(label(place.left - place.names - place.titles - 8, place.tops[r] + kSide / 2,
                      grid.row_labels[r], "end", 13));
  for (size_t c = 0; c < columns; ++c)
    drawing.add(label(place.x(c) + kSide / 2, kTop - 8, grid.column_labels[c], "middle", 13));
  for (size_t i = 0; i < grid.maps.size(); ++i)
    if (!grid.maps[i].values.empty())
      drawing.add(map_with_axes(grid.maps[i], place, i / columns, i % columns));
  return drawing.str();
}

}  // namespace longbow::reporting

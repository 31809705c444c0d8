#include "longbow/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "longbow/report/svg.h"

namespace longbow::reporting {
namespace {

constexpr int64_t kMostCells = 64;
constexpr int kShades = 16;
constexpr double kSide = 160, kGap = 14, kLeft = 80, kTop = 48, kBottom = 32;

// At most kMostCells on either side; cell r covers the rows r rows / cells to (r + 1) rows / cells.
HeatMap reduced(const HeatMap& map) {
  HeatMap small = {std::min(map.rows, kMostCells), std::min(map.columns, kMostCells), {}};
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

// One path a shade; cells of one shade that stand beside each other are one rectangle.
std::string cells(const HeatMap& map, double left, double top) {
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  const double least = *low, span = *high - least;
  const double width = kSide / static_cast<double>(map.columns),
               height = kSide / static_cast<double>(map.rows);
  const auto shade = [&](int64_t r, int64_t c) {
    const double value = map.values[static_cast<size_t>(r * map.columns + c)];
    return span > 0 ? static_cast<int>(std::lround((value - least) / span * (kShades - 1))) : 0;
  };
  std::vector<std::string> paths(kShades);
  for (int64_t r = 0; r < map.rows; ++r)
    for (int64_t c = 0, end = 0; c < map.columns; c = end) {
      const int own = shade(r, c);
      for (end = c; end < map.columns && shade(r, end) == own; ++end) continue;
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

std::string label(double x, double y, const std::string& words, const char* anchor, int size) {
  return fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-family="sans-serif" font-size="{}" fill="#444">{}</text>)",
      x, y, anchor, size, escaped(words));
}

}  // namespace

std::string heat_grid(const HeatGrid& grid) {
  const size_t rows = grid.row_labels.size(), columns = grid.column_labels.size();
  if (grid.maps.size() != rows * columns)
    throw std::invalid_argument(
        fmt::format("heat grid: {} maps for {} rows of {}", grid.maps.size(), rows, columns));
  const auto x = [](size_t c) { return kLeft + (kSide + kGap) * static_cast<double>(c); };
  const auto y = [](size_t r) { return kTop + (kSide + kGap) * static_cast<double>(r); };
  Drawing drawing(x(columns), y(rows) + kBottom, grid.title, grid.description);
  drawing.add(label(x(columns) / 2, kTop / 2 + 6, grid.title, "middle", 18));
  for (size_t r = 0; r < rows; ++r)
    drawing.add(label(kLeft - 8, y(r) + kSide / 2, grid.row_labels[r], "end", 13));
  for (size_t c = 0; c < columns; ++c)
    drawing.add(label(x(c) + kSide / 2, y(rows) + 8, grid.column_labels[c], "middle", 13));
  for (size_t i = 0; i < grid.maps.size(); ++i) {
    const auto& map = grid.maps[i];
    if (map.rows < 1 || map.columns < 1 ||
        map.values.size() != static_cast<size_t>(map.rows * map.columns))
      throw std::invalid_argument(fmt::format("heat grid: map {} has {} values for {} x {}", i,
                                              map.values.size(), map.rows, map.columns));
    drawing.add(cells(reduced(map), x(i % columns), y(i / columns)));
  }
  return drawing.str();
}

}  // namespace longbow::reporting

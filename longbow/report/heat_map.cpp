#include "longbow/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "longbow/report/number.h"
#include "longbow/report/svg.h"

namespace longbow::reporting {
namespace {

constexpr int64_t kMostCells = 64;
constexpr int kShades = 16;
constexpr size_t kMostNames = 40, kLongestName = 10;
constexpr double kSide = 160, kGap = 14, kLeft = 80, kTop = 48, kBottom = 32;

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

std::string label(double x, double y, const std::string& words, const char* anchor, double size,
                  const std::string& more = "") {
  return fmt::format(
      R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-family="sans-serif" font-size="{:g}" fill="#444"{}>{}</text>)",
      x, y, anchor, size, more, escaped(words));
}

size_t last_character(const std::string& utf8) {
  size_t at = utf8.size() - 1;
  while (at > 0 && (utf8[at] & 0xC0) == 0x80) --at;
  return at;
}

// The names that are drawn, cut where they are long; none where there are too many.
std::vector<std::string> shown(const std::vector<std::string>& names) {
  if (names.size() > kMostNames) return {};
  auto result = names;
  for (auto& name : result) {
    if (columns_of(name) <= kLongestName) continue;
    while (columns_of(name) >= kLongestName) name.erase(last_character(name));
    name += "…";
  }
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

// Where the maps stand: names take room on the left and below each row.
struct Layout {
  double names = 0, left = kLeft;
  std::vector<double> tops = {};  // of each row, and the end of the last

  explicit Layout(const HeatGrid& grid) {
    const size_t columns = grid.column_labels.size();
    for (const auto& words : grid.row_labels) left = std::max(left, 16 + text_width(words));
    for (const auto& map : grid.maps) names = std::max(names, room_for(map.row_names));
    left += names;
    double top = kTop;
    for (size_t r = 0; r < grid.row_labels.size(); ++r) {
      tops.push_back(top);
      double below = 0;
      for (size_t c = 0; c < columns; ++c)
        below = std::max(below, room_for(grid.maps[r * columns + c].column_names));
      top += kSide + below + kGap;
    }
    tops.push_back(top);
  }
  double x(size_t column) const { return left + (kSide + kGap) * static_cast<double>(column); }
};

}  // namespace

std::string heat_grid(const HeatGrid& grid) {
  check(grid);
  const size_t rows = grid.row_labels.size(), columns = grid.column_labels.size();
  const Layout place(grid);
  const double width = std::max(place.x(columns), 20 + 1.5 * text_width(grid.title));
  Drawing drawing(width, place.tops.back() + kBottom, grid.title, grid.description);
  drawing.add(label(width / 2, kTop / 2 + 6, grid.title, "middle", 18));
  for (size_t r = 0; r < rows; ++r)
    drawing.add(label(place.left - place.names - 8, place.tops[r] + kSide / 2, grid.row_labels[r],
                      "end", 13));
  for (size_t c = 0; c < columns; ++c)
    drawing.add(
        label(place.x(c) + kSide / 2, place.tops.back() + 8, grid.column_labels[c], "middle", 13));
  for (size_t i = 0; i < grid.maps.size(); ++i) {
    const auto& map = grid.maps[i];
    if (map.values.empty()) continue;
    const double left = place.x(i % columns), top = place.tops[i / columns];
    drawing.add(cells(reduced(map), left, top));
    if (i % columns == 0) drawing.add(row_names(map, left, top));
    drawing.add(column_names(map, left, top + kSide));
  }
  return drawing.str();
}

}  // namespace longbow::reporting

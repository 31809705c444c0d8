#include "longbow/data/sets/pathfinder/square.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace longbow::pathfinder {
namespace {

constexpr uint8_t kWhite = 255;

// Halves go up, and halves go down; both away from a sign.
int rounded_up(double value) {
  const auto size = static_cast<int>(std::floor(std::abs(value) + 0.5));
  return value < 0 ? -size : size;
}
int rounded_down(double value) {
  const auto size = static_cast<int>(std::ceil(std::abs(value) - 0.5));
  return value < 0 ? -size : size;
}

void put(Square& square, Point at) {
  if (square.holds(at)) square[at] = kWhite;
}

void draw_thin_line(Square& square, Point from, Point to) {
  const int height = std::abs(to.y - from.y), width = std::abs(to.x - from.x);
  const int down = to.y < from.y ? -1 : 1, right = to.x < from.x ? -1 : 1;
  const bool steep = height > width;
  const int steps = std::max(height, width), slope = 2 * std::min(height, width);
  int error = slope - steps;
  for (int step = 0; step <= steps; ++step) {
    put(square, from);
    if (error >= 0) {
      (steep ? from.x : from.y) += steep ? right : down;
      error -= 2 * steps;
    }
    (steep ? from.y : from.x) += steep ? down : right;
    error += slope;
  }
}

// Row by row, from the leftmost to the rightmost of its edges.
void fill(Square& square, const std::array<Point, 4>& corners) {
  const auto [top, bottom] = std::minmax_element(corners.begin(), corners.end(),
                                                 [](Point a, Point b) { return a.y < b.y; });
  for (int y = top->y; y <= bottom->y; ++y) {
    float left = 1e9F, right = -1e9F;
    for (size_t i = 0; i < corners.size(); ++i) {
      const auto a = corners[i], b = corners[(i + 1) % corners.size()];
      if (a.y == b.y || y < std::min(a.y, b.y) || y > std::max(a.y, b.y)) continue;
      const auto slope = static_cast<float>(b.x - a.x) / static_cast<float>(b.y - a.y);
      const float x = static_cast<float>(y - a.y) * slope + static_cast<float>(a.x);
      left = std::min(left, x);
      right = std::max(right, x);
    }
    for (int x = rounded_up(left); x <= rounded_down(right); ++x) put(square, {y, x});
  }
}

// The rounding of its corners makes it as wide as the pen, whatever the direction.
void draw_wide_line(Square& square, Point from, Point to, int width) {
  const int rows = to.y - from.y, columns = to.x - from.x;
  if (rows == 0 && columns == 0) return put(square, from);
  const double length = std::hypot(rows, columns), half = (width - 1) / 2.0;
  const double less = rounded_down(half) / length, more = rounded_up(half) / length;
  const int left = rounded_down(less * rows), right = rounded_down(more * rows);
  const int above = rounded_down(less * columns), below = rounded_down(more * columns);
  fill(square, {Point{from.y + below, from.x - left}, Point{to.y + below, to.x - left},
                Point{to.y - above, to.x + right}, Point{from.y - above, from.x + right}});
}

}  // namespace

void draw_line(Square& square, Point from, Point to, int width) {
  width == 1 ? draw_thin_line(square, from, to) : draw_wide_line(square, from, to, width);
}

std::vector<Point> disk(int radius) {
  std::vector<Point> offsets;
  for (int y = -radius; y <= radius; ++y)
    for (int x = -radius; x <= radius; ++x)
      if (y * y + x * x <= radius * radius) offsets.push_back({y, x});
  return offsets;
}

Square dilated(const Square& square, const std::vector<Point>& offsets) {
  Square result(square.side);
  for (int y = 0; y < square.side; ++y)
    for (int x = 0; x < square.side; ++x)
      for (const auto offset : offsets) {
        const auto from = Point{y, x} + offset;
        if (square.holds(from)) result[{y, x}] = std::max(result[{y, x}], square[from]);
      }
  return result;
}

}  // namespace longbow::pathfinder

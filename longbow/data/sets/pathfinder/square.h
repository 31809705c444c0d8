#pragma once
// Square grey pictures, and what paddles and markers are drawn with.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace longbow::pathfinder {

struct Point {
  int y = 0, x = 0;
  bool operator==(const Point&) const = default;
};
inline Point operator+(Point a, Point b) {
  return {a.y + b.y, a.x + b.x};
}

struct Square {
  explicit Square(int pixels) : side(pixels), bytes(static_cast<size_t>(pixels * pixels)) {}
  bool holds(Point at) const { return at.y >= 0 && at.x >= 0 && at.y < side && at.x < side; }
  uint8_t& operator[](Point at) { return bytes[static_cast<size_t>(at.y * side + at.x)]; }
  uint8_t operator[](Point at) const { return bytes[static_cast<size_t>(at.y * side + at.x)]; }

  int side;
  std::vector<uint8_t> bytes;  // row by row
};

// Both ends included, in white. Of width 1 by Bresenham's steps; a wider one is a filled rectangle
// with butt ends.
void draw_line(Square& square, Point from, Point to, int width);

// Offsets not farther away than the radius, row by row.
std::vector<Point> disk(int radius);

// Each pixel becomes the largest one of those at the offsets; what lies outside is left out.
Square dilated(const Square& square, const std::vector<Point>& offsets);

}  // namespace longbow::pathfinder

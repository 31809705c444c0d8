#include "longbow/data/sets/pathfinder/paddles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longbow/data/sets/pathfinder/lanczos.h"

namespace longbow::pathfinder {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kWhite = 255;

double opposite(double angle) {
  return angle < 0 ? angle + kPi : angle - kPi;
}

// The pixels of a circle, each once, with its centre at zero.
std::vector<Point> circle(int radius) {
  const double step = 360.0 / (2 * radius * kPi);
  std::vector<Point> cells;
  for (int k = 0; k * step < 360; ++k) {
    const double angle = k * step * kPi / 180;
    cells.push_back({static_cast<int>(std::floor(radius * std::sin(angle))),
                     static_cast<int>(std::floor(radius * std::cos(angle)))});
  }
  const auto by_row = [](Point a, Point b) { return a.y != b.y ? a.y < b.y : a.x < b.x; };
  std::sort(cells.begin(), cells.end(), by_row);
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  return cells;
}

// Draws the stamps of one thickness and margin.
class Brush {
 public:
  Brush(const Kind& kind, const Paddles& paddles)
      : large_(2 * paddles.reach * kScale + 1),
        length_(kScale * paddles.length),
        width_(static_cast<int>(std::lround(kScale * kind.thickness))),
        around_(disk(kScale * paddles.margin)),
        smaller_(large_, 2 * paddles.reach + 1) {}

  Stamp stamp(const Heading& heading) const {
    Square line(large_);
    const Point middle = {large_ / 2, large_ / 2};
    draw_line(line, middle, moved(middle, heading, length_), width_);
    Stamp stamp = {.line = smaller_(line), .mask = smaller_(dilated(line, around_))};
    const int reach = stamp.mask.side / 2;
    for (int y = -reach; y <= reach; ++y)
      for (int x = -reach; x <= reach; ++x)
        if (const int mask = stamp.mask[{y + reach, x + reach}]; mask + kWhite >= kCrossed)
          stamp.bright.push_back({{y, x}, mask});
    return stamp;
  }

 private:
  int large_, length_, width_;
  std::vector<Point> around_;
  Lanczos smaller_;
};

// The original dilates by the white pixels of a box around the middle, in which the paddle begins
// one pixel beside the middle, in both directions.
std::vector<Point> ground_of(const Stamp& stamp, int radius) {
  std::vector<Point> ground;
  for (const auto& [offset, mask] : stamp.bright) {
    const auto moved = offset + Point{1, 1};
    if (mask == kWhite && std::max(std::abs(moved.y), std::abs(moved.x)) <= radius)
      ground.push_back(moved);
  }
  return ground;
}

void set_turns(Heading& heading, const std::vector<Point>& cells, double continuity) {
  for (int i = 0; i < std::ssize(cells); ++i) {
    const auto [y, x] = cells[static_cast<size_t>(i)];
    const double apart = std::abs(std::atan2(y, x) - heading.angle);
    const double turn = continuity * std::min(apart, 2 * kPi - apart);
    if (turn < kPi / 2) heading.turns.push_back({i, std::cos(turn) * std::cos(turn)});
  }
}

}  // namespace

Heading::Heading(double radians)
    : angle(radians), sine(std::sin(radians)), cosine(std::cos(radians)) {}

Point moved(Point from, const Heading& heading, int distance) {
  return {static_cast<int>(std::ceil(from.y + distance * heading.sine)),
          static_cast<int>(std::ceil(from.x + distance * heading.cosine))};
}

Paddles::Paddles(const Kind& kind, int margin_)
    : length(kind.length),
      margin(margin_),
      reach(length + static_cast<int>(std::ceil(kind.thickness)) + margin),
      near(disk(margin)),
      cells(circle(length + margin)) {
  const Brush brush(kind, *this);
  for (int degree = -kDegrees / 2; degree < kDegrees / 2; ++degree) {
    const auto& heading = headings.emplace_back(degree * kPi / 180);
    backwards.emplace_back(opposite(heading.angle));
    first.push_back(brush.stamp(heading));
    ground.push_back(ground_of(first.back(), length + margin));
  }
  for (const auto [y, x] : cells) {
    const auto& heading = headings.emplace_back(std::atan2(y, x));
    next.push_back(brush.stamp(Heading(opposite(heading.angle))));
  }
  for (auto& heading : headings) set_turns(heading, cells, kind.continuity);
}

}  // namespace longbow::pathfinder

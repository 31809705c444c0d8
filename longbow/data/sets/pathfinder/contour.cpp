#include "longbow/data/sets/pathfinder/contour.h"

#include <array>

namespace longbow::pathfinder {
namespace {

constexpr double kLeastWeight = 1e-4;
constexpr size_t kMostCells = 64;

// The cells that a contour may end in next, with the sum of the weights up to each.
struct Ends {
  std::array<int, kMostCells> cells;
  std::array<double, kMostCells> sums;
  size_t count = 0;
  double total = 0;

  void add(int cell, double weight) {
    cells[count] = cell;
    sums[count++] = total += weight;
  }
  int drawn(Stream& stream) const {
    const double threshold = stream.uniform() * total;
    size_t i = 0;
    while (i + 1 < count && sums[i] <= threshold) ++i;
    return cells[i];
  }
};

}  // namespace

std::optional<Contour> begun(const Paddles& paddles, const Ground& ground, int degree, Point tail) {
  const auto which = static_cast<size_t>(degree);
  const auto head = moved(tail, paddles.headings[which], paddles.length);
  const auto pivot = moved(head, paddles.backwards[which], paddles.length + paddles.margin);
  if (!ground.holds(head) || !ground.holds(pivot)) return {};
  return Contour{.paddles = {{&paddles.first[which], tail}},
                 .tail = tail,
                 .tip = head,
                 .pivot = pivot,
                 .heading = degree};
}

bool extend(Contour& contour, const Paddles& paddles, Ground& ground, Stream& stream) {
  const auto& heading = paddles.headings[static_cast<size_t>(contour.heading)];
  const auto pivot = moved(contour.pivot, heading, paddles.length + 2 * paddles.margin);
  Ends ends;
  for (const auto& [cell, weight] : heading.turns) {
    const auto end = pivot + paddles.cells[static_cast<size_t>(cell)];
    if (ground.holds(end))
      ends.add(cell, weight * (1 - ground.brightest(end, paddles.near) / 255.0));
  }
  if (ends.total < kLeastWeight) return false;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const int cell = ends.drawn(stream);
    const Placed paddle = {&paddles.next[static_cast<size_t>(cell)],
                           pivot + paddles.cells[static_cast<size_t>(cell)]};
    if (ground.crosses(paddle)) continue;
    ground.take(contour.paddles.back());
    contour.paddles.push_back(paddle);
    contour.tip = paddle.at;
    contour.pivot = pivot;
    contour.heading = kDegrees + cell;
    return true;
  }
  return false;
}

}  // namespace longbow::pathfinder

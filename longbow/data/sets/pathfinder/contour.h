#pragma once
#include <optional>
#include <vector>

#include "longbow/core/seed.h"
#include "longbow/data/sets/pathfinder/ground.h"

namespace longbow::pathfinder {

// Paddles one behind the other. The ground of the last one is not taken yet.
struct Contour {
  std::vector<Placed> paddles = {};
  Point tail = {}, tip = {};  // where it begins, and where its last paddle ends
  Point pivot = {};           // the end of its last paddle but one, with the gap
  int heading = 0;
};

constexpr int kTries = 3;

// A contour of one paddle that begins at `tail`; nothing where it would leave the picture.
std::optional<Contour> begun(const Paddles& paddles, const Ground& ground, int degree, Point tail);

// One paddle more, drawn by how little it turns and how free its end is. False where there is no
// room; the contour and the ground are of no use then.
bool extend(Contour& contour, const Paddles& paddles, Ground& ground, Stream& stream);

}  // namespace longbow::pathfinder

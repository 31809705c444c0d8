#pragma once
// All paddles that a picture can have, drawn once. A paddle begins in one of 360 directions, or
// ends in one of the cells of a circle around the end of the paddle before it, so there are only
// some hundreds of each thickness and margin.
#include <cstdint>
#include <vector>

#include "longbow/data/sets/pathfinder/kind.h"
#include "longbow/data/sets/pathfinder/square.h"

namespace longbow::pathfinder {

constexpr int kDegrees = 360;
constexpr int kFree = 76;      // of a mask: 0.3 of white, up to which a pixel is free
constexpr int kCrossed = 459;  // 1.8 of white, from which on two masks cross

// A paddle and the ground that it takes, in a patch around the pixel where its drawing begins.
struct Stamp {
  Square line, mask;
  // Where the mask is so bright that it can cross another one, with its brightness.
  struct Pixel {
    Point offset;
    int mask;
  };
  std::vector<Pixel> bright = {};
};

// A direction that a contour can have.
struct Heading {
  explicit Heading(double radians);
  double angle, sine, cosine;
  // Of the cells around the pivot, those less than a right angle / continuity aside.
  struct Turn {
    int cell;
    double weight;
  };
  std::vector<Turn> turns = {};
};

// The pixel at a distance, both coordinates rounded up.
Point moved(Point from, const Heading& heading, int distance);

struct Paddles {
  Paddles(const Kind& kind, int margin);

  int length, margin;
  int reach;                               // of a patch, from its middle
  std::vector<Point> near;                 // pixels within the margin
  std::vector<Heading> headings;           // the degrees from -180 on, then one to each cell
  std::vector<Heading> backwards;          // opposite to the degrees
  std::vector<Stamp> first;                // by degree: it begins in the middle
  std::vector<std::vector<Point>> ground;  // by degree: what must be free to begin there
  std::vector<Point> cells;                // a circle around the pivot, row by row
  std::vector<Stamp> next;                 // by cell: it ends in the middle
};

}  // namespace longbow::pathfinder

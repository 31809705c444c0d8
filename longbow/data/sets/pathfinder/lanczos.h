#pragma once
#include <cstdint>
#include <vector>

#include "longbow/data/sets/pathfinder/square.h"

namespace longbow::pathfinder {

// Squares made smaller with Lanczos' kernel of three lobes, as Pillow does it for 8 bits: weights
// of 22 bits behind the point that add up to one inside the picture, rows first, and every result
// rounded and cut to 0..255.
class Lanczos {
 public:
  Lanczos(int from, int to);  // sides
  Square operator()(const Square& square) const;
  // Only the rows and columns from `first` to `last`, both included; the others are black.
  Square operator()(const Square& square, Point first, Point last) const;

 private:
  struct Window {
    int first = 0;                      // pixel of the large picture
    std::vector<int32_t> weights = {};  // of it and those behind it
  };
  int from_;
  std::vector<Window> windows_;  // one for each pixel of the small picture
};

}  // namespace longbow::pathfinder

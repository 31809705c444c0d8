#pragma once
// Pictures of Pathfinder (Linsley et al., 2018, arXiv:1805.08315), as the Long Range Arena's were
// made: two long dashed contours, short ones between them, and a dot at an end of a long one and at
// the other end of the same one (1) or of the other one (0).
#include <array>
#include <cstdint>
#include <vector>

#include "longbow/core/seed.h"
#include "longbow/data/sets/pathfinder/contour.h"
#include "longbow/data/sets/pathfinder/kind.h"
#include "longbow/data/sets/pathfinder/lanczos.h"

namespace longbow::pathfinder {

constexpr int kVersion = 1;  // same seed and version, same pictures

struct Picture {
  std::vector<uint8_t> pixels = {};  // row by row
  int label = 0, margin = 0;
  std::array<Contour, 2> contours = {};
  std::array<Point, 2> markers = {};  // at the beginning of one, and at the tip of one
  int64_t restarts = 0;               // how often both contours were begun again
  int distractors = 0;                // short contours for which there was room
};

class Painter {
 public:
  explicit Painter(const Kind& kind);
  ~Painter();
  const Kind& kind() const { return kind_; }
  Picture paint(Stream stream) const;  // safe from several threads at once

 private:
  struct Tools;
  bool two_contours(Picture& picture, const Tools& tools, Ground& ground, Stream& stream) const;
  bool distractor(const Tools& tools, Ground& ground, std::vector<Placed>& paddles,
                  Stream& stream) const;
  void mark(Square& markers, Point at) const;

  Kind kind_;
  std::vector<Tools> tools_;  // one for each margin
  Lanczos smaller_;           // of whole pictures
};

// Pictures first, first + 1, … of the stream, on all cores (threads = 0) or as many as said: each
// depends on the stream and its own number only.
std::vector<Picture> paint(const Painter& painter, const Stream& stream, int64_t first,
                           int64_t count, int64_t threads = 0);

}  // namespace longbow::pathfinder

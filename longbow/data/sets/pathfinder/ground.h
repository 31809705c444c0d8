#pragma once
#include <cstdint>
#include <vector>

#include "longbow/data/sets/pathfinder/paddles.h"

namespace longbow::pathfinder {

// A paddle in a picture.
struct Placed {
  const Stamp* stamp = nullptr;
  Point at = {};
};

// Which parts of a picture are taken: the brightest of the masks of all paddles so far. There is a
// black border around it that patches may reach into.
class Ground {
 public:
  Ground(int size, int reach, int padding);  // taken at the border

  bool holds(Point at) const { return at.y >= 0 && at.x >= 0 && at.y < size_ && at.x < size_; }
  // The brightest of the pixels at the offsets.
  int brightest(Point at, const std::vector<Point>& offsets) const {
    const auto* middle = pixel(at);
    int most = 0;
    for (const auto [y, x] : offsets) {
      const int value = middle[y * stride_ + x];
      most = value > most ? value : most;
    }
    return most;
  }
  bool crosses(const Placed& paddle) const {
    const auto* middle = pixel(paddle.at);
    for (const auto& [offset, mask] : paddle.stamp->bright)
      if (middle[offset.y * stride_ + offset.x] + mask >= kCrossed) return true;
    return false;
  }
  void take(const Placed& paddle);

  class Bits;
  Bits taken() const;  // what is not free

 private:
  const uint8_t* pixel(Point at) const { return &mask_[index(at)]; }
  size_t index(Point at) const {
    return static_cast<size_t>((at.y + reach_) * stride_ + at.x + reach_);
  }
  int size_, reach_, stride_;
  std::vector<uint8_t> mask_;
};

// One bit for each pixel, 64 to a word, with an empty word before and after each row.
class Ground::Bits {
 public:
  explicit Bits(int size);  // none is set
  void set(Point at) { row(at.y)[at.x / kWord] |= uint64_t{1} << (at.x % kWord); }
  // The outermost `width` pixels.
  void set_frame(int width);
  int64_t count() const;
  Bits& operator|=(const Bits& other);
  // Set where one of the pixels at the offsets is; offsets are less than 64 pixels.
  Bits dilated(const std::vector<Point>& offsets) const;
  // The pixels that are not set, row by row.
  std::vector<Point> unset() const;

 private:
  static constexpr int kWord = 64;
  uint64_t* row(int y) { return &words_[static_cast<size_t>(y * (across_ + 2) + 1)]; }
  const uint64_t* row(int y) const { return &words_[static_cast<size_t>(y * (across_ + 2) + 1)]; }
  int size_, across_;
  std::vector<uint64_t> words_;
};

}  // namespace longbow::pathfinder

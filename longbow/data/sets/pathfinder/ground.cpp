#include "longbow/data/sets/pathfinder/ground.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace longbow::pathfinder {

Ground::Ground(int size, int reach, int padding)
    : size_(size),
      reach_(reach),
      stride_(size + 2 * reach),
      mask_(static_cast<size_t>(stride_ * stride_)) {
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x)
      if (std::min({y, x, size - 1 - y, size - 1 - x}) < padding) mask_[index({y, x})] = 255;
}

void Ground::take(const Placed& paddle) {
  const auto& mask = paddle.stamp->mask;
  const int reach = mask.side / 2, top = paddle.at.y - reach, left = paddle.at.x - reach;
  const int first = std::max(0, -left), end = std::min(mask.side, size_ - left);
  for (int y = std::max(0, -top); y < std::min(mask.side, size_ - top); ++y) {
    auto* to = &mask_[index({top + y, left})];
    const auto* from = &mask.bytes[static_cast<size_t>(y * mask.side)];
    for (int x = first; x < end; ++x) to[x] = std::max(to[x], from[x]);
  }
}

Ground::Bits Ground::taken() const {
  Bits bits(size_);
  for (int y = 0; y < size_; ++y) {
    const auto* from = pixel({y, 0});
    for (int x = 0; x < size_; ++x)
      if (from[x] > kFree) bits.set({y, x});
  }
  return bits;
}

Ground::Bits::Bits(int size)
    : size_(size),
      across_((size + kWord - 1) / kWord),
      words_(static_cast<size_t>(size * (across_ + 2))) {}

void Ground::Bits::set_frame(int width) {
  for (int y = 0; y < size_; ++y)
    for (int x = 0; x < size_; ++x)
      if (std::min({y, x, size_ - 1 - y, size_ - 1 - x}) < width) set({y, x});
}

int64_t Ground::Bits::count() const {
  int64_t set = 0;
  for (const auto word : words_) set += std::popcount(word);
  return set;
}

Ground::Bits& Ground::Bits::operator|=(const Bits& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

Ground::Bits Ground::Bits::dilated(const std::vector<Point>& offsets) const {
  Bits result(size_);
  for (const auto [down, right] : offsets) {
    const int shift = std::abs(right);
    for (int y = std::max(0, -down); y < std::min(size_, size_ - down); ++y) {
      const auto* from = row(y + down);
      auto* to = result.row(y);
      for (int w = 0; w < across_; ++w) {
        if (shift == 0)
          to[w] |= from[w];
        else if (right > 0)
          to[w] |= from[w] >> shift | from[w + 1] << (kWord - shift);
        else
          to[w] |= from[w] << shift | from[w - 1] >> (kWord - shift);
      }
    }
  }
  return result;
}

std::vector<Point> Ground::Bits::unset() const {
  std::vector<Point> points;
  for (int y = 0; y < size_; ++y)
    for (int w = 0; w < across_; ++w) {
      const int left = size_ - w * kWord;
      const auto there = left >= kWord ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
      for (auto word = ~row(y)[w] & there; word != 0; word &= word - 1)
        points.push_back({y, w * kWord + std::countr_zero(word)});
    }
  return points;
}

}  // namespace longbow::pathfinder

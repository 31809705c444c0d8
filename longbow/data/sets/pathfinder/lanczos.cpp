#include "longbow/data/sets/pathfinder/lanczos.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace longbow::pathfinder {
namespace {

constexpr int kBits = 22;
constexpr double kLobes = 3;

double sinc(double x) {
  if (x == 0) return 1;
  const double turned = x * std::numbers::pi;
  return std::sin(turned) / turned;
}

double kernel(double x) {
  return std::abs(x) < kLobes ? sinc(x) * sinc(x / kLobes) : 0;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

}  // namespace

Lanczos::Lanczos(int from, int to) : from_(from) {
  const double scale = double(from) / to, reach = kLobes * scale;
  for (int i = 0; i < to; ++i) {
    const double middle = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(middle - reach + 0.5));
    const int end = std::min(from, static_cast<int>(middle + reach + 0.5));
    std::vector<double> exact;
    for (int j = first; j < end; ++j) exact.push_back(kernel((j - middle + 0.5) / scale));
    const double sum = std::accumulate(exact.begin(), exact.end(), 0.0);
    Window window = {.first = first};
    for (const double weight : exact)
      window.weights.push_back(
          static_cast<int32_t>(std::lround(weight / sum * (int64_t{1} << kBits))));
    windows_.push_back(std::move(window));
  }
}

Square Lanczos::operator()(const Square& square) const {
  const int last = static_cast<int>(windows_.size()) - 1;
  return (*this)(square, {0, 0}, {last, last});
}

Square Lanczos::operator()(const Square& square, Point first, Point last) const {
  constexpr int32_t kHalf = 1 << (kBits - 1);
  const auto& top = windows_[static_cast<size_t>(first.y)];
  const auto& bottom = windows_[static_cast<size_t>(last.y)];
  Square narrow(from_);  // its first columns hold the result of the first pass
  for (int y = top.first; y < bottom.first + std::ssize(bottom.weights); ++y)
    for (int x = first.x; x <= last.x; ++x) {
      const auto& window = windows_[static_cast<size_t>(x)];
      const auto* from = &square.bytes[static_cast<size_t>(y * from_ + window.first)];
      int32_t sum = kHalf;
      for (const auto weight : window.weights) sum += weight * *from++;
      narrow[{y, x}] = rounded(sum);
    }
  Square small(static_cast<int>(windows_.size()));
  for (int y = first.y; y <= last.y; ++y) {
    const auto& window = windows_[static_cast<size_t>(y)];
    for (int x = first.x; x <= last.x; ++x) {
      int32_t sum = kHalf;
      for (int j = 0; j < std::ssize(window.weights); ++j)
        sum += window.weights[static_cast<size_t>(j)] * narrow[{window.first + j, x}];
      small[{y, x}] = rounded(sum);
    }
  }
  return small;
}

}  // namespace longbow::pathfinder

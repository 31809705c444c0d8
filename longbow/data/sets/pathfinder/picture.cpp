#include "longbow/data/sets/pathfinder/picture.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longbow/core/on_all_cores.h"

namespace longbow::pathfinder {
namespace {

constexpr int kDistractorTries = 5;
constexpr double kLeastFree = 0.01;  // of a picture, for one more distractor
constexpr int kMarkerContrast = 100;

// Clipped at the border.
void paste(Square& picture, const Placed& paddle) {
  const auto& line = paddle.stamp->line;
  const int reach = line.side / 2;
  for (int y = 0; y < line.side; ++y)
    for (int x = 0; x < line.side; ++x) {
      const auto at = paddle.at + Point{y - reach, x - reach};
      if (picture.holds(at)) picture[at] = std::max(picture[at], line[{y, x}]);
    }
}

Point around(Point from, int distance, int64_t degree) {
  const double angle = static_cast<double>(degree) * std::numbers::pi / 180;
  return {static_cast<int>(std::nearbyint(from.y + distance * std::sin(angle))),
          static_cast<int>(std::nearbyint(from.x + distance * std::cos(angle)))};
}

// The darkest pixel becomes 0 and the brightest 255; halves are rounded up.
std::vector<uint8_t> stretched(const std::vector<int>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const int range = std::max(1, *most - *least);
  std::vector<uint8_t> pixels;
  for (const int value : values)
    pixels.push_back(static_cast<uint8_t>((2 * 255 * (value - *least) + range) / (2 * range)));
  return pixels;
}

}  // namespace

// What depends on the margin, made once.
struct Painter::Tools {
  Tools(const Kind& kind, int margin)
      : paddles(kind, margin), empty(kind.size, paddles.reach, kind.padding) {
    for (const auto& ground : paddles.ground)
      outside.push_back(outside_of(ground, kind.size, kind.original_border));
    auto taken = empty.taken();
    taken.set_frame(2 * kind.seed_distance);
    for (int degree = 0; degree < kDegrees; ++degree) starts.push_back(free(taken, degree));
  }
  // Where a contour may begin in this direction.
  std::vector<Point> free(const Ground::Bits& taken, int degree) const {
    const auto which = static_cast<size_t>(degree);
    return (taken.dilated(paddles.ground[which]) |= outside[which]).unset();
  }
  // The pixels with all of their ground outside the picture; all pixels, if `or_all`, where there
  // is one such.
  static Ground::Bits outside_of(const std::vector<Point>& ground, int size, bool or_all) {
    Ground::Bits all(size), none(size);
    all.set_frame(size);
    for (const auto at : all.dilated(ground).unset()) none.set(at);
    return or_all && none.count() > 0 ? all : none;
  }

  Paddles paddles;
  Ground empty;
  std::vector<Ground::Bits> outside;       // by degree
  std::vector<std::vector<Point>> starts;  // of the first contour, by degree
};

Painter::Painter(const Kind& kind) : kind_(kind), smaller_(kScale * kind.size, kind.size) {
  for (const int margin : kind.margins) tools_.emplace_back(kind, margin);
}
Painter::~Painter() = default;

bool Painter::two_contours(Picture& picture, const Tools& tools, Ground& ground,
                           Stream& stream) const {
  auto& [one, other] = picture.contours;
  const auto degree = [&] { return static_cast<int>(stream.below(kDegrees)); };
  const auto begin = [&](const auto& tail_for) -> std::optional<Contour> {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const int direction = degree();
      const std::optional<Point> tail = tail_for(direction);
      if (!tail) return {};
      if (auto contour = begun(tools.paddles, ground, direction, *tail)) return contour;
    }
    return {};
  };
  const auto first = begin([&](int direction) -> std::optional<Point> {
    const auto& starts = tools.starts[static_cast<size_t>(direction)];
    if (starts.empty()) return {};
    return starts[static_cast<size_t>(stream.below(std::ssize(starts)))];
  });
  if (!first) return false;
  const auto second =
      begin([&](int) { return around(first->tail, kind_.seed_distance, stream.below(kDegrees)); });
  if (!second) return false;
  one = *first;
  other = *second;
  for (int paddle = 1; paddle < kind_.contour_length; ++paddle)
    for (auto* contour : {&one, &other})
      if (!extend(*contour, tools.paddles, ground, stream)) return false;
  ground.take(other.paddles.back());  // the original never takes that of the first
  return true;
}

bool Painter::distractor(const Tools& tools, Ground& ground, std::vector<Placed>& paddles,
                         Stream& stream) const {
  auto taken = ground.taken();
  const double area = double(kind_.size) * kind_.size;
  if (area - static_cast<double>(taken.count()) < kLeastFree * area) return false;
  taken.set_frame(1);
  std::optional<Contour> contour;
  for (int attempt = 0; attempt < kTries && !contour; ++attempt) {
    const auto degree = static_cast<int>(stream.below(kDegrees));
    const auto free = tools.free(taken, degree);
    if (free.empty()) return false;
    contour = begun(tools.paddles, ground, degree,
                    free[static_cast<size_t>(stream.below(std::ssize(free)))]);
  }
  if (!contour) return false;
  auto changed = ground;
  for (int paddle = 1; paddle < kind_.distractor_length; ++paddle)
    if (!extend(*contour, tools.paddles, changed, stream)) return false;
  changed.take(contour->paddles.back());
  ground = std::move(changed);
  paddles.insert(paddles.end(), contour->paddles.begin(), contour->paddles.end());
  return true;
}

void Painter::mark(Square& markers, Point at) const {
  const double radius = kScale * kind_.marker_radius;
  Square large(kScale * kind_.size);
  const auto extent = static_cast<int>(radius);
  for (const auto offset : disk(extent)) {
    const auto pixel = Point{kScale * at.y, kScale * at.x} + offset;
    if (large.holds(pixel)) large[pixel] = 255;
  }
  const int reach = static_cast<int>(std::ceil(kind_.marker_radius)) + 4;  // three lobes more
  const auto inside = [&](int place) { return std::clamp(place, 0, kind_.size - 1); };
  const Point first = {inside(at.y - reach), inside(at.x - reach)},
              last = {inside(at.y + reach), inside(at.x + reach)};
  const auto small = smaller_(large, first, last);
  for (size_t i = 0; i < small.bytes.size(); ++i)
    markers.bytes[i] = std::max(markers.bytes[i], small.bytes[i]);
}

Picture Painter::paint(Stream stream) const {
  Picture picture = {.label = static_cast<int>(stream.below(2))};
  const auto& tools = tools_[static_cast<size_t>(stream.below(std::ssize(tools_)))];
  picture.margin = tools.paddles.margin;
  auto ground = tools.empty;
  for (; !two_contours(picture, tools, ground, stream); ++picture.restarts) ground = tools.empty;

  std::vector<Placed> short_ones;
  for (int i = 0; i < kind_.distractors; ++i) {
    bool placed = false;
    for (int attempt = 0; attempt < kDistractorTries && !placed; ++attempt)
      placed = distractor(tools, ground, short_ones, stream);
    picture.distractors += placed;
  }

  const auto from = static_cast<size_t>(stream.below(2));
  const auto to = picture.label == 1 ? from : 1 - from;
  picture.markers = {picture.contours[from].tail, picture.contours[to].tip};

  Square targets(kind_.size), distractors(kind_.size), markers(kind_.size);
  for (const auto& contour : picture.contours)
    for (const auto& paddle : contour.paddles) paste(targets, paddle);
  for (const auto& paddle : short_ones) paste(distractors, paddle);
  for (const auto at : picture.markers) mark(markers, at);
  std::vector<int> values;
  for (size_t i = 0; i < targets.bytes.size(); ++i)
    values.push_back(std::max({targets.bytes[i] * kind_.target_contrast,
                               distractors.bytes[i] * kind_.distractor_contrast,
                               markers.bytes[i] * kMarkerContrast}));
  picture.pixels = stretched(values);
  return picture;
}

std::vector<Picture> paint(const Painter& painter, const Stream& stream, int64_t first,
                           int64_t count, int64_t threads) {
  std::vector<Picture> pictures(static_cast<size_t>(count));
  on_all_cores(
      count,
      [&](int64_t i) {
        pictures[static_cast<size_t>(i)] =
            painter.paint(stream.at(static_cast<uint64_t>(first + i)));
      },
      threads);
  return pictures;
}

}  // namespace longbow::pathfinder

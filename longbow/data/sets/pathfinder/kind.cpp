#include "longbow/data/sets/pathfinder/kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "longbow/core/option_error.h"

namespace longbow::pathfinder {
namespace {

Kind kind_of_size(int64_t size) {
  switch (size) {
    case 32:
      return {.size = 32,
              .padding = 1,
              .seed_distance = 7,
              .margins = {1},
              .length = 2,
              .thickness = 0.5,
              .marker_radius = 1.5,
              .continuity = 1,
              .target_contrast = 150,
              .distractor_contrast = 200};
    case 64:
      return {.size = 64,
              .padding = 1,
              .seed_distance = 12,
              .margins = {1},
              .length = 5,
              .thickness = 1,
              .marker_radius = 2.5,
              .continuity = 1.8,
              .target_contrast = 80,
              .distractor_contrast = 80};
    case 128:
      return {.size = 128,
              .padding = 1,
              .seed_distance = 20,
              .margins = {2, 3},
              .length = 5,
              .thickness = 1.5,
              .marker_radius = 3,
              .continuity = 1.8,
              .target_contrast = 90,
              .distractor_contrast = 90};
    case 256:
      return {.size = 256,
              .padding = 22,
              .seed_distance = 27,
              .margins = {3},
              .length = 5,
              .thickness = 2,
              .marker_radius = 5,
              .continuity = 1.8,
              .target_contrast = 100,
              .distractor_contrast = 100};
    default:
      throw OptionError("size", fmt::format("is {}, but there are no such pictures", size),
                        fmt::format("one of: {}", fmt::join(kSizes, ", ")));
  }
}

// Paddles of all distractors together.
int distractor_paddles(int size) {
  return size == 32 ? 20 : size == 64 ? 22 : size == 128 ? 35 : 30;
}

}  // namespace

int contour_length(Level level) {
  constexpr std::array<int, 3> kLengths = {6, 9, 14};
  return kLengths[static_cast<size_t>(level)];
}

Kind kind_of(int64_t size, Level level) {
  auto kind = kind_of_size(size);
  kind.contour_length = contour_length(level);
  kind.distractor_length = kind.contour_length / 3;
  kind.distractors = distractor_paddles(kind.size) / kind.distractor_length;
  return kind;
}

}  // namespace longbow::pathfinder

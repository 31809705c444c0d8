#pragma once
// What the pictures of the Long Range Arena's Pathfinder are made with, by size and level.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longbow::pathfinder {

// Contours of 6, 9 or 14 paddles.
enum class Level { easy, inter, hard };
constexpr std::array<std::string_view, 3> names_of(Level) {
  return {"easy", "inter", "hard"};
}

struct Kind {
  int size = 32;                  // pixels of a side
  int padding = 1;                // border that no contour enters
  int seed_distance = 7;          // between the beginnings of the two contours
  std::vector<int> margins = {};  // half the gap between paddles; each picture draws one
  int length = 2;                 // of a paddle
  double thickness = 0.5;         // of a paddle
  double marker_radius = 1.5;
  double continuity = 1;  // a contour turns by less than 90 degrees / continuity
  int contour_length = 14, distractor_length = 4;        // in paddles
  int distractors = 5;                                   // contours that are tried
  int target_contrast = 150, distractor_contrast = 200;  // in percent of a marker's
  // Contours begin only in directions in which the original program can begin them: its dilation
  // fails where all of what must be free lies outside the picture, even for one pixel at the
  // border.
  bool original_border = false;
};

constexpr int kScale = 2;  // everything is drawn this much larger, and made smaller afterwards

inline constexpr std::array<int64_t, 4> kSizes = {32, 64, 128, 256};

// OptionError for a size that there is none of.
Kind kind_of(int64_t size, Level level);
int contour_length(Level level);

}  // namespace longbow::pathfinder

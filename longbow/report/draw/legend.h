#pragma once
#include <string>
#include <vector>

#include "longbow/report/draw/palette.h"
#include "longbow/report/draw/svg.h"

namespace longbow::reporting {

struct LegendEntry {
  enum class Sign { line, dot, ring, number };
  std::string words;
  Look look;
  Sign sign = Sign::line;
  bool faint = false;    // of a line
  std::string number{};  // that stands for the words in the figure
};

// Lets the drawing grow and puts signs and their words into the new room, in as many columns as
// fit. Words that are wider than the drawing lose their middle.
void draw_legend(Drawing& drawing, const std::vector<LegendEntry>& entries);

}  // namespace longbow::reporting

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/draw/palette.h"
#include "longbow/report/draw/scale.h"
#include "longbow/report/draw/svg.h"

namespace longbow::reporting {

struct Bubble {
  std::string label, hint;
  Look look;
  double x = 0, y = 0, deviation = 0;
  std::optional<double> size;  // the area
};

// A horizontal line: a baseline without a speed. One outside the axis is named at the lower edge
// with an arrow.
struct Level {
  std::string label;
  double y = 0;
};

struct BubblePlot {
  std::string title, description;
  Axis x, y;
  std::vector<Bubble> bubbles;
  std::vector<Level> levels;
  std::string size_label;  // what the area means, with the largest value
};

// Bubbles with error bars; a bubble without a size is a small ring. Each has its label beside it
// where that covers no other, and else a number that a legend below explains.
std::string bubble_plot(const BubblePlot& plot, Width width = Width::wide);

}  // namespace longbow::reporting

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/draw/palette.h"
#include "longbow/report/draw/scale.h"
#include "longbow/report/draw/svg.h"

namespace longbow::reporting {

struct Series {
  std::string label;
  std::string kind;  // says what a dash means: "train", "valid"; empty when there is one kind
  Look look;
  struct Point {
    double x, y, low, high;
  };
  std::vector<Point> points;
  bool faint = false;   // drawn thin and without its own label
  bool hollow = false;  // its points are rings
};

struct Ring {  // a marked point, for a crossover
  double x, y;
  std::string colour, words;
};

struct LinePlot {
  std::string title, description;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Ring> rings;
};

// Lines with a band from low to high. They are labelled at their right ends where there is room,
// and else, as on a narrow screen, by a legend below; a legend explains the kinds too. A point that
// has no place on the axis (NaN, a zero on a logarithm) is a gap.
std::string line_plot(const LinePlot& plot, Width width = Width::wide);

}  // namespace longbow::reporting

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "longbow/report/palette.h"
#include "longbow/report/scale.h"

namespace longbow::reporting {

struct Series {
  std::string label;
  std::string kind;  // says what a dash means: "train", "valid"; empty when there is one kind
  Look look;
  struct Point {
    double x, y, low, high;
  };
  std::vector<Point> points;
  bool faint = false;  // drawn thin and without its own label
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

// Lines with a band from low to high, labelled at their right ends; a legend explains the kinds.
// Points that have no place on the axis (a zero on a logarithm) are left out.
std::string line_plot(const LinePlot& plot);

}  // namespace longbow::reporting

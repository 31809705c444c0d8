#pragma once
// The parts every figure is drawn with. Colours and fonts are classes of the page, so that a figure
// follows light and dark.
#include <string>
#include <vector>

#include "longbow/report/scale.h"

namespace longbow::reporting {

std::string escaped(const std::string& text);  // for HTML and SVG, in text and in attributes

struct Box {
  double left, top, right, bottom;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

class Drawing {
 public:
  Drawing(double width, double height, const std::string& title, const std::string& description);

  enum class Anchor { start, middle, end };
  void add(const std::string& element) { body_ += element; }
  void line(double x1, double y1, double x2, double y2, const std::string& style_class);
  void text(double x, double y, const std::string& words, Anchor anchor,
            const std::string& style_class, const std::string& colour = "");
  std::string str() const;  // <svg>…</svg>

 private:
  std::string body_;
};

// A plotting area with its axes, in the coordinates of the drawing.
struct Frame {
  Box area;
  Axis x, y;
  double px(double value) const { return area.left + x.scale.at(value) * area.width(); }
  double py(double value) const { return area.bottom - y.scale.at(value) * area.height(); }
  void draw(Drawing& drawing) const;  // grid lines, tick labels, axis labels
};

double text_width(const std::string& words);  // an estimate at the size of figure labels

// Moves label centres apart to `spacing` while keeping their order and staying in low..high where
// they fit.
std::vector<double> spread(std::vector<double> wanted, double spacing, double low, double high);

}  // namespace longbow::reporting

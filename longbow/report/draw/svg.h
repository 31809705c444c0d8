#pragma once
// The parts every figure is drawn with. Colours and fonts are classes of the page, so that a figure
// follows light and dark.
#include <string>
#include <vector>

#include "longbow/report/draw/scale.h"

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

// A figure is drawn twice, and the page shows the one that fits the screen.
enum class Width { wide, narrow };

class Drawing {
 public:
  Drawing(double width, double height, const std::string& title, const std::string& description,
          const std::string& style_class = "")
      : width_(width),
        height_(height),
        title_(title),
        description_(description),
        style_class_(style_class) {}
  Drawing(double width, double height, const std::string& title, const std::string& description,
          Width kind)
      : Drawing(width, height, title, description, kind == Width::wide ? "wide" : "narrow") {}

  enum class Anchor { start, middle, end };
  void add(const std::string& element) { body_ += element; }
  void line(double x1, double y1, double x2, double y2, const std::string& style_class);
  void text(double x, double y, const std::string& words, Anchor anchor,
            const std::string& style_class, const std::string& colour = "");
  double width() const { return width_; }
  double height() const { return height_; }
  void grow(double height) { height_ += height; }  // room below what there is
  std::string str() const;                         // <svg>…</svg>

 private:
  double width_, height_;
  std::string title_, description_, style_class_, body_;
};

// A plotting area with its axes, in the coordinates of the drawing.
struct Frame {
  Box area;
  Axis x, y;
  double px(double value) const { return area.left + x.scale.at(value) * area.width(); }
  double py(double value) const { return area.bottom - y.scale.at(value) * area.height(); }
  // Grid lines, tick labels where they have room, axis labels, which say where a scale is
  // logarithmic.
  void draw(Drawing& drawing) const;
};

std::string dot_style(const std::string& colour, bool hollow);  // the style of a circle

double text_width(const std::string& words);  // an estimate at the size of figure labels
size_t letters_in(double width);              // that fit
double widest_text(const Axis& axis);         // of its tick labels

// Moves label centres apart to `spacing` while keeping their order and staying in low..high where
// they fit.
std::vector<double> spread(std::vector<double> wanted, double spacing, double low, double high);

}  // namespace longbow::reporting

#include "longbow/report/draw/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "longbow/core/columns.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

constexpr double kLetter = 6.9;

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (auto c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

void Drawing::line(double x1, double y1, double x2, double y2, const std::string& style_class) {
  add(fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", x1, y1,
                  x2, y2, style_class));
}

void Drawing::text(double x, double y, const std::string& words, Anchor anchor,
                   const std::string& style_class, const std::string& colour) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  auto style = colour.empty() ? "" : fmt::format(R"( style="fill:{}")", colour);
  add(fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}"{}>{}</text>)", x, y,
                  kAnchors[static_cast<int>(anchor)], style_class, style, escaped(words)));
}

std::string Drawing::str() const {
  auto kind = style_class_.empty() ? "" : fmt::format(R"(class="{}" )", style_class_);
  return fmt::format(
             R"(<svg {}viewBox="0 0 {:.0f} {:.0f}" xmlns="http://www.w3.org/2000/svg" role="img"><title>{}</title><desc>{}</desc>)",
             kind, width_, height_, escaped(title_), escaped(description_)) +
         body_ + "</svg>";
}

namespace {

std::string axis_words(const Axis& axis) {
  return axis.scale.spacing == Spacing::logarithmic ? axis.label + " (log scale)" : axis.label;
}

// Every how many-th mark is labelled, so that no label touches the next.
size_t label_stride(const Frame& frame) {
  auto& marks = frame.x.marks;
  auto touches = [&](size_t stride) {
    for (size_t i = stride; i < marks.size(); i += stride) {
      auto room = frame.px(marks[i]) - frame.px(marks[i - stride]);
      auto words = text_width(frame.x.text(marks[i])) + text_width(frame.x.text(marks[i - stride]));
      if (room < words / 2 + 12) return true;
    }
    return false;
  };
  size_t stride = 1;
  while (stride < marks.size() && touches(stride)) ++stride;
  return stride;
}

}  // namespace

void Frame::draw(Drawing& drawing) const {
  using Anchor = Drawing::Anchor;
  for (auto mark : y.marks) {
    drawing.line(area.left, py(mark), area.right, py(mark), "rule");
    drawing.text(area.left - 8, py(mark) + 4, y.text(mark), Anchor::end, "tick");
  }
  auto stride = label_stride(*this);
  for (size_t i = 0; i < x.marks.size(); ++i) {
    auto at = px(x.marks[i]);
    drawing.line(at, area.top, at, area.bottom, "rule");
    if (i % stride == 0)
      drawing.text(at, area.bottom + 18, x.text(x.marks[i]), Anchor::middle, "tick");
  }
  drawing.line(area.left, area.bottom, area.right, area.bottom, "axis");
  drawing.text(area.right, area.bottom + 38, axis_words(x), Anchor::end, "axis-label");
  drawing.text(0, area.top - 14, axis_words(y), Anchor::start, "axis-label");
}

std::string dot_style(const std::string& colour, bool hollow) {
  return hollow ? fmt::format(R"(class="hollow-dot" style="stroke:{}")", colour)
                : fmt::format(R"(style="fill:{}")", colour);
}

double text_width(const std::string& words) {
  return kLetter * static_cast<double>(columns_of(words));
}

size_t letters_in(double width) {
  return static_cast<size_t>(std::max(0.0, width / kLetter + 1e-6));
}

double widest_text(const Axis& axis) {
  double width = 0;
  for (auto mark : axis.marks) width = std::max(width, text_width(axis.text(mark)));
  return width;
}

std::vector<double> spread(std::vector<double> wanted, double spacing, double low, double high) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  for (size_t i = 1; i < order.size(); ++i)
    wanted[order[i]] = std::max(wanted[order[i]], wanted[order[i - 1]] + spacing);
  auto limit = high;
  for (auto i = order.rbegin(); i != order.rend(); ++i, limit -= spacing)
    wanted[*i] = std::min(wanted[*i], limit);
  limit = low;
  for (auto i = order.begin(); i != order.end(); ++i, limit += spacing)
    wanted[*i] = std::max(wanted[*i], limit);
  return wanted;
}

}  // namespace longbow::reporting

#include "longbow/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace longbow::reporting {

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

Drawing::Drawing(double width, double height, const std::string& title,
                 const std::string& description) {
  body_ = fmt::format(
      R"(<svg viewBox="0 0 {:.0f} {:.0f}" xmlns="http://www.w3.org/2000/svg" role="img"><title>{}</title><desc>{}</desc>)",
      width, height, escaped(title), escaped(description));
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
  return body_ + "</svg>";
}

void Frame::draw(Drawing& drawing) const {
  using Anchor = Drawing::Anchor;
  for (auto mark : y.marks) {
    drawing.line(area.left, py(mark), area.right, py(mark), "rule");
    drawing.text(area.left - 8, py(mark) + 4, y.text(mark), Anchor::end, "tick");
  }
  for (auto mark : x.marks) {
    drawing.line(px(mark), area.top, px(mark), area.bottom, "rule");
    drawing.text(px(mark), area.bottom + 18, x.text(mark), Anchor::middle, "tick");
  }
  drawing.line(area.left, area.bottom, area.right, area.bottom, "axis");
  drawing.text(area.right, area.bottom + 38, x.label, Anchor::end, "axis-label");
  drawing.text(0, area.top - 14, y.label, Anchor::start, "axis-label");
}

double text_width(const std::string& words) {
  auto letters =
      std::count_if(words.begin(), words.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return 6.9 * static_cast<double>(letters);
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

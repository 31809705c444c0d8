#include "longbow/report/draw/bubble_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "longbow/report/draw/legend.h"
#include "longbow/report/draw/svg.h"

namespace longbow::reporting {
namespace {

constexpr double kLeastRadius = 3.5, kTextHeight = 14;
constexpr double kMostCovered =
    12;  // of a label, in square pixels; above, a number takes its place

struct Size {
  double width, height, largest_radius;
};

Size size_of(Width width) {
  return width == Width::wide ? Size{760, 440, 24} : Size{360, 360, 14};
}

struct Placed {
  const Bubble* bubble;
  double x, y, radius;
  Box box() const { return {x - radius, y - radius, x + radius, y + radius}; }
};

std::vector<Placed> placed(const BubblePlot& plot, const Frame& frame, double largest_radius) {
  double largest = 0;
  for (auto& bubble : plot.bubbles) largest = std::max(largest, bubble.size.value_or(0));
  std::vector<Placed> result;
  for (auto& bubble : plot.bubbles) {
    auto share = bubble.size && largest > 0 ? *bubble.size / largest : 0;
    auto radius = std::max(kLeastRadius, largest_radius * std::sqrt(share));
    result.push_back({&bubble, frame.px(bubble.x), frame.py(bubble.y), radius});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Placed& a, const Placed& b) { return a.radius > b.radius; });
  return result;
}

void draw_bubble(Drawing& drawing, const Frame& frame, const Placed& at) {
  auto& bubble = *at.bubble;
  if (bubble.deviation > 0) {
    auto top = frame.py(bubble.y + bubble.deviation),
         bottom = frame.py(bubble.y - bubble.deviation);
    drawing.add(fmt::format(
        R"(<path d="M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}h8M{3:.1f} {2:.1f}h8" class="bar" style="stroke:{4}"/>)",
        at.x, top, bottom, at.x - 4, bubble.look.colour));
  }
  auto kind = bubble.size ? "bubble" : "bubble hollow";
  drawing.add(fmt::format(
      R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}" style="--colour:{}"><title>{}</title></circle>)",
      at.x, at.y, at.radius, kind, bubble.look.colour, escaped(bubble.hint)));
}

// The places a label may take around its bubble, best first: right, left, above, below, and the
// corners.
std::array<Box, 8> candidates(const Placed& at, double width) {
  auto gap = at.radius + 5, diagonal = 0.72 * at.radius + 4, half = kTextHeight / 2;
  auto box = [&](double left, double middle) {
    return Box{left, middle - half, left + width, middle + half};
  };
  return {box(at.x + gap, at.y),
          box(at.x - gap - width, at.y),
          box(at.x - width / 2, at.y - gap - half + 2),
          box(at.x - width / 2, at.y + gap + half - 2),
          box(at.x + diagonal, at.y - diagonal - half),
          box(at.x + diagonal, at.y + diagonal + half),
          box(at.x - diagonal - width, at.y - diagonal - half),
          box(at.x - diagonal - width, at.y + diagonal + half)};
}

double covered(const Box& box, const std::vector<Box>& taken, const Box& page) {
  double cost = 0;
  for (auto& other : taken)
    if (box.overlaps(other))
      cost += (std::min(box.right, other.right) - std::max(box.left, other.left)) *
              (std::min(box.bottom, other.bottom) - std::max(box.top, other.top));
  auto inside = box.left >= page.left && box.right <= page.right && box.top >= page.top &&
                box.bottom <= page.bottom;
  return inside ? cost : cost + 1e4;
}

// Chooses places for the labels of a plot one after the other.
class Labels {
 public:
  Labels(Drawing& drawing, const Box& page, std::vector<Box> taken)
      : drawing_(drawing), page_(page), taken_(std::move(taken)) {}

  // The legend of those that became numbers.
  std::vector<LegendEntry> draw(const std::vector<Placed>& bubbles) {
    for (auto& at : bubbles) taken_.push_back(at.box());
    std::vector<LegendEntry> legend;
    std::vector<const Placed*> crowded;
    for (auto bold : {true, false})
      for (auto& at : bubbles)
        if (at.bubble->look.bold == bold && !draw_label(at, at.bubble->label, kMostCovered))
          crowded.push_back(&at);
    std::sort(crowded.begin(), crowded.end(),
              [](const Placed* a, const Placed* b) { return a->bubble->label < b->bubble->label; });
    for (auto at : crowded) {
      auto number = fmt::format("{}", legend.size() + 1);
      draw_label(*at, number, std::numeric_limits<double>::max());
      legend.push_back({.words = at->bubble->label,
                        .look = at->bubble->look,
                        .sign = LegendEntry::Sign::number,
                        .number = number});
    }
    return legend;
  }

 private:
  bool draw_label(const Placed& at, const std::string& words, double most) {
    auto others = taken_;
    auto own = std::find_if(others.begin(), others.end(), [&](const Box& box) {
      return box.left == at.box().left && box.top == at.box().top;
    });
    if (own != others.end()) others.erase(own);
    auto choices = candidates(at, text_width(words));
    auto cost = [&](const Box& box) { return covered(box, others, page_); };
    auto best = std::min_element(choices.begin(), choices.end(),
                                 [&](const Box& a, const Box& b) { return cost(a) < cost(b); });
    if (cost(*best) > most) return false;
    drawing_.text(best->left, best->bottom - 3, words, Drawing::Anchor::start,
                  at.bubble->look.bold ? "label strong" : "label", at.bubble->look.colour);
    taken_.push_back(*best);
    return true;
  }

  Drawing& drawing_;
  Box page_;
  std::vector<Box> taken_;
};

// Words of a level at the left edge, one above the other where levels are close.
std::vector<Box> draw_levels(Drawing& drawing, const Frame& frame, const BubblePlot& plot) {
  auto& scale = frame.y.scale;
  std::vector<std::string> words;
  std::vector<double> heights;
  for (auto& level : plot.levels) {
    auto below = level.y<scale.low, above = level.y> scale.high;
    auto y = frame.py(std::clamp(level.y, scale.low, scale.high));
    words.push_back((below ? "↓ " : above ? "↑ " : "") + level.label);
    heights.push_back(above ? y + 12 : y - 6);
    if (!below && !above) drawing.line(frame.area.left, y, frame.area.right, y, "level");
  }
  auto places = spread(heights, kTextHeight, frame.area.top + 10, frame.area.bottom - 6);
  std::vector<Box> taken;
  for (size_t i = 0; i < words.size(); ++i) {
    auto left = frame.area.left + 6;
    drawing.text(left, places[i], words[i], Drawing::Anchor::start, "tick halo");
    taken.push_back(
        {left, places[i] - kTextHeight + 3, left + text_width(words[i]), places[i] + 3});
  }
  return taken;
}

// Beside the label of the axis, or below the figure where there is no room for both.
void draw_size_label(Drawing& drawing, const Frame& frame, const std::string& words, Width width) {
  if (words.empty()) return;
  if (width == Width::wide)
    return drawing.text(frame.area.right, frame.area.top - 14, words, Drawing::Anchor::end, "tick");
  drawing.text(0, drawing.height() + 8, words, Drawing::Anchor::start, "tick");
  drawing.grow(20);
}

Frame frame_of(const BubblePlot& plot, const Size& size) {
  return {.area = {widest_text(plot.y) + 14, 36, size.width - 24, size.height - 46},
          .x = plot.x,
          .y = plot.y};
}

}  // namespace

std::string bubble_plot(const BubblePlot& plot, Width width) {
  auto size = size_of(width);
  auto frame = frame_of(plot, size);
  Drawing drawing(size.width, size.height, plot.title, plot.description, width);
  frame.draw(drawing);
  auto taken = draw_levels(drawing, frame, plot);
  auto bubbles = placed(plot, frame, size.largest_radius);
  for (auto& at : bubbles) draw_bubble(drawing, frame, at);
  const Box page = {frame.area.left, frame.area.top - 8, size.width, frame.area.bottom};
  auto legend = Labels(drawing, page, taken).draw(bubbles);
  draw_size_label(drawing, frame, plot.size_label, width);
  draw_legend(drawing, legend);
  return drawing.str();
}

}  // namespace longbow::reporting

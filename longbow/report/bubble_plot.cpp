#include "longbow/report/bubble_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "longbow/report/svg.h"

namespace longbow::reporting {
namespace {

constexpr double kWidth = 800, kHeight = 440, kLargestRadius = 26, kLeastRadius = 3.5,
                 kTextHeight = 14;

struct Placed {
  const Bubble* bubble;
  double x, y, radius;
  Box box() const { return {x - radius, y - radius, x + radius, y + radius}; }
};

std::vector<Placed> placed(const BubblePlot& plot, const Frame& frame) {
  double largest = 0;
  for (auto& bubble : plot.bubbles) largest = std::max(largest, bubble.size.value_or(0));
  std::vector<Placed> result;
  for (auto& bubble : plot.bubbles) {
    auto share = bubble.size && largest > 0 ? *bubble.size / largest : 0;
    auto radius = std::max(kLeastRadius, kLargestRadius * std::sqrt(share));
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

double covered(const Box& box, const std::vector<Box>& taken, const Box& area) {
  double cost = 0;
  for (auto& other : taken)
    if (box.overlaps(other))
      cost += (std::min(box.right, other.right) - std::max(box.left, other.left)) *
              (std::min(box.bottom, other.bottom) - std::max(box.top, other.top));
  if (box.left < area.left || box.right > kWidth || box.top < area.top - 8 ||
      box.bottom > area.bottom)
    cost += 1e4;
  return cost;
}

void draw_labels(Drawing& drawing, const Frame& frame, const std::vector<Placed>& bubbles,
                 std::vector<Box> taken) {
  for (auto& at : bubbles) taken.push_back(at.box());
  for (auto& at : bubbles) {
    auto others = taken;
    auto own = std::find_if(others.begin(), others.end(), [&](const Box& box) {
      return box.left == at.box().left && box.top == at.box().top;
    });
    if (own != others.end()) others.erase(own);
    auto choices = candidates(at, text_width(at.bubble->label));
    auto best = std::min_element(choices.begin(), choices.end(), [&](const Box& a, const Box& b) {
      return covered(a, others, frame.area) < covered(b, others, frame.area);
    });
    drawing.text(best->left, best->bottom - 3, at.bubble->label, Drawing::Anchor::start,
                 at.bubble->look.bold ? "label strong" : "label", at.bubble->look.colour);
    taken.push_back(*best);
  }
}

std::vector<Box> draw_levels(Drawing& drawing, const Frame& frame, const BubblePlot& plot) {
  std::vector<Box> taken;
  for (auto& level : plot.levels) {
    if (level.y < frame.y.scale.low || level.y > frame.y.scale.high) continue;
    auto y = frame.py(level.y);
    drawing.line(frame.area.left, y, frame.area.right, y, "level");
    drawing.text(frame.area.left + 6, y - 5, level.label, Drawing::Anchor::start, "tick");
    taken.push_back(
        {frame.area.left, y - 5 - kTextHeight, frame.area.left + 6 + text_width(level.label), y});
  }
  std::vector<std::string> outside;
  for (auto& level : plot.levels) {
    if (level.y < frame.y.scale.low) outside.push_back("↓ " + level.label);
    if (level.y > frame.y.scale.high) outside.push_back("↑ " + level.label);
  }
  auto words = fmt::format("{}", fmt::join(outside, "   "));
  drawing.text(frame.area.left + 6, frame.area.bottom - 6, words, Drawing::Anchor::start, "tick");
  taken.push_back({frame.area.left, frame.area.bottom - 20, frame.area.left + 6 + text_width(words),
                   frame.area.bottom});
  return taken;
}

}  // namespace

std::string bubble_plot(const BubblePlot& plot) {
  Frame frame{.area = {66, 36, kWidth - 70, kHeight - 46}, .x = plot.x, .y = plot.y};
  Drawing drawing(kWidth, kHeight, plot.title, plot.description);
  frame.draw(drawing);
  auto taken = draw_levels(drawing, frame, plot);
  auto bubbles = placed(plot, frame);
  for (auto& at : bubbles) draw_bubble(drawing, frame, at);
  draw_labels(drawing, frame, bubbles, taken);
  drawing.text(frame.area.right, frame.area.top - 14, plot.size_label, Drawing::Anchor::end,
               "tick");
  return drawing.str();
}

}  // namespace longbow::reporting

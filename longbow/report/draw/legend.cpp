#include "longbow/report/draw/legend.h"

#include <fmt/format.h>

#include <algorithm>

#include "longbow/core/columns.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

constexpr double kRow = 19, kSign = 34, kGap = 14;
// More entries than this share two columns, if each column has room for most of a name.
constexpr size_t kMostAlone = 6;
constexpr double kLeastShared = 240;

struct Columns {
  size_t count, rows;
  double width;
};

Columns columns_for(const std::vector<LegendEntry>& entries, double width) {
  double widest = 1;
  for (auto& entry : entries) widest = std::max(widest, kSign + text_width(entry.words) + kGap);
  if (entries.size() > kMostAlone)
    widest = std::min(widest, std::max(kLeastShared, (width + kGap) / 2));
  auto fit = static_cast<size_t>(std::max(1.0, (width + kGap) / widest));
  auto count = std::max(size_t{1}, std::min(fit, entries.size()));
  return {count, (entries.size() + count - 1) / count, count == 1 ? width + kGap : widest};
}

void draw_sign(Drawing& drawing, const LegendEntry& entry, double x, double y) {
  auto& colour = entry.look.colour;
  if (entry.sign == LegendEntry::Sign::number) {
    drawing.text(x + kSign - 12, y + 4, entry.number, Drawing::Anchor::end, "label strong", colour);
  } else if (entry.sign != LegendEntry::Sign::line) {
    drawing.add(fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" {}/>)", x + 13, y,
                            dot_style(colour, entry.sign == LegendEntry::Sign::ring)));
  } else {
    auto dash = entry.look.dash.empty() ? "" : ";stroke-dasharray:" + entry.look.dash;
    auto kind = entry.faint ? "line key faint" : entry.look.bold ? "line key bold" : "line key";
    drawing.add(fmt::format(
        R"(<polyline points="{:.1f},{:.1f} {:.1f},{:.1f}" class="{}" style="stroke:{}{}"/>)", x, y,
        x + 26, y, kind, colour, dash));
  }
}

}  // namespace

void draw_legend(Drawing& drawing, const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return;
  auto columns = columns_for(entries, drawing.width());
  auto room = letters_in(columns.width - kGap - kSign);
  for (size_t i = 0; i < entries.size(); ++i) {
    auto& entry = entries[i];
    auto x = columns.width * static_cast<double>(i / columns.rows);
    auto y = drawing.height() + kRow * (static_cast<double>(i % columns.rows) + 0.5);
    draw_sign(drawing, entry, x, y);
    drawing.text(x + kSign, y + 4, shortened(entry.words, room), Drawing::Anchor::start,
                 entry.look.bold ? "tick strong" : "tick");
  }
  drawing.grow(kRow * static_cast<double>(columns.rows) + 6);
}

}  // namespace longbow::reporting

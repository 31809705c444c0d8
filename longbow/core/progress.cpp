#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longbow/core/columns.h"
#include "longbow/core/config.h"
#include "longbow/core/console.h"
#include "longbow/core/error.h"
#include "longbow/core/log.h"

namespace longbow {
namespace {

constexpr double kSecondsBetweenBars = 0.1;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressStyle resolve_style(ProgressStyle style) {
  if (style != ProgressStyle::automatic) return style;
  return console_is_terminal() ? ProgressStyle::bar : ProgressStyle::plain;
}

std::string drawing(double part) {
  constexpr size_t kWidth = 20;
  auto filled = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * kWidth);
  return "[" + std::string(filled, '=') + std::string(kWidth - filled, ' ') + "]";
}

}  // namespace

struct Progress::Impl {
  std::string label;
  int64_t total;
  ProgressStyle style;
  ProgressTiming timing;
  std::mutex mutex;
  double start = 0;
  std::optional<double> shown;  // when something was shown last
  std::optional<std::pair<int64_t, double>>
      baseline;  // the first update: a resumed run starts past 0
  bool finished = false;

  bool is_due(int64_t step, double now, const TimeLimit& limit) const {
    if (now - start < timing.quiet) return false;
    const bool over = step == total || (limit.most > 0 && limit.used >= limit.most);
    if (style == ProgressStyle::json || !shown || over) return true;
    return now - *shown >=
           (style == ProgressStyle::bar ? kSecondsBetweenBars : timing.seconds_between);
  }

  // By the pace of the steps so far.
  std::optional<double> seconds_of_steps(int64_t step, double now) const {
    if (total <= 0 || !baseline || step <= baseline->first) return {};
    double pace = (now - baseline->second) / static_cast<double>(step - baseline->first);
    return pace * static_cast<double>(std::max<int64_t>(total - step, 0));
  }

  std::optional<double> seconds_left(int64_t step, double now, const TimeLimit& limit) const {
    auto left = seconds_of_steps(step, now);
    if (limit.most <= 0) return left;
    const double at_most = std::max(limit.most - limit.used, 0.0);
    return left ? std::min(*left, at_most) : at_most;
  }

  double seconds_left_in_all(double left, double now) const {
    double each = timing.after.seconds_each > 0 ? timing.after.seconds_each : now - start + left;
    return left + static_cast<double>(timing.after.further) * each;
  }

  // Of the steps or of the time, whichever is further.
  double part(int64_t step, const TimeLimit& limit) const {
    const double steps = total > 0 ? static_cast<double>(step) / static_cast<double>(total) : 0;
    return limit.most > 0 ? std::max(steps, std::min(limit.used / limit.most, 1.0)) : steps;
  }

  // The pieces of a line; one that is empty is left out.
  struct Line {
    std::string label, drawing, count;
    std::vector<std::string> values, minor;
    std::string elapsed, left;

    std::string str() const {
      std::string text = label + " " + (drawing.empty() ? "" : drawing + " ") + count;
      for (const auto* list : {&values, &minor})
        for (const auto& value : *list) text += "  " + value;
      return text + elapsed + left;
    }
    // In so many columns: what matters least goes first, and the time that is left never.
    std::string fitted(size_t columns) {
      const auto fits = [&] { return columns_of(str()) <= columns; };
      while (!fits() && !minor.empty()) minor.pop_back();
      if (!fits()) elapsed.clear();
      if (!fits()) drawing.clear();
      while (!fits() && !values.empty()) values.pop_back();
      if (!fits()) {
        const auto rest = columns_of(str()) - columns_of(label);
        label = cut_to(label, columns > rest ? columns - rest : 0);
      }
      return cut_to(str(), columns);
    }
  };

  Line line(int64_t step, double now, const Values& values, const TimeLimit& limit) const {
    const double done = part(step, limit);
    Line line{.label = label,
              .drawing = style == ProgressStyle::bar && total > 0 ? drawing(done) : "",
              .count = total > 0 ? fmt::format("{}/{} ({:.0f}%)", step, total, 100 * done)
                                 : std::to_string(step),
              .values = {},
              .minor = {},
              .elapsed = "  elapsed " + human_seconds(now - start),
              .left = {}};
    for (const auto& value : values)
      (value.minor ? line.minor : line.values)
          .push_back(value.name + " " +
                     (value.text ? value.text(value.value) : fmt::format("{:.4g}", value.value)));
    if (auto left = seconds_left(step, now, limit)) {
      line.left = "  eta " + human_seconds(*left);
      if (timing.after.further > 0)
        line.left += ", all " + human_seconds(seconds_left_in_all(*left, now));
    }
    return line;
  }

  std::string object(int64_t step, double now, const Values& values, const TimeLimit& limit) const {
    auto tenths = [](double seconds) { return Node::number(std::round(seconds * 10) / 10); };
    auto node = Node::map({{"label", Node::string(label)}, {"step", Node::integer(step)}});
    if (total > 0) node["total"] = Node::integer(total);
    for (const auto& value : values)
      node["values"][value.name] = std::isfinite(value.value) ? Node::number(value.value) : Node{};
    node["elapsed"] = tenths(now - start);
    if (auto left = seconds_left(step, now, limit)) {
      node["eta"] = tenths(*left);
      if (timing.after.further > 0) node["eta_all"] = tenths(seconds_left_in_all(*left, now));
    }
    return to_json(node);
  }
};

Progress::Progress(std::string label, int64_t total, ProgressStyle style, ProgressTiming timing)
    : impl_(std::make_unique<Impl>()) {
  impl_->label = std::move(label);
  impl_->total = total;
  impl_->style = resolve_style(style);
  impl_->timing = std::move(timing);
  if (!impl_->timing.now) impl_->timing.now = steady_seconds;
  impl_->start = impl_->timing.now();
}

Progress::~Progress() {
  finish();
}

void Progress::update(int64_t step, const Values& values, const TimeLimit& limit) {
  auto& p = *impl_;
  if (p.style == ProgressStyle::off) return;
  std::lock_guard lock(p.mutex);
  double now = p.timing.now();
  bool due = p.is_due(step, now, limit);
  if (due && p.style == ProgressStyle::bar)
    draw_bar(p.line(step, now, values, limit).fitted(console_columns() - 1));
  if (due && p.style == ProgressStyle::plain) print_line(p.line(step, now, values, limit).str());
  if (due && p.style == ProgressStyle::json) print_line(p.object(step, now, values, limit));
  if (due) p.shown = now;
  if (!p.baseline) p.baseline = {step, now};
}

void Progress::finish() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->style == ProgressStyle::bar && !impl_->finished) erase_bar();
  impl_->finished = true;
}

ProgressStyle parse_progress(const std::string& text) {
  const std::vector<std::string> names = {"auto", "bar", "plain", "json", "off"};
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw UserError({"--progress", 0}, fmt::format("{} is not a progress style", quote(text)),
                    suggest(text, names));
  return static_cast<ProgressStyle>(found - names.begin());
}

}  // namespace longbow

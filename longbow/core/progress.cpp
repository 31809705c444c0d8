#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>

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

ProgressStyle settled(ProgressStyle style) {
  if (style != ProgressStyle::automatic) return style;
  return console_is_terminal() ? ProgressStyle::bar : ProgressStyle::plain;
}

// Cuts after so many characters, never inside one.
std::string cut(const std::string& text, size_t characters) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    bool starts_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (starts_character && ++seen > characters) return text.substr(0, i);
  }
  return text;
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

  bool is_due(int64_t step, double now) const {
    if (style == ProgressStyle::json || !shown || step == total) return true;
    return now - *shown >=
           (style == ProgressStyle::bar ? kSecondsBetweenBars : timing.seconds_between);
  }

  std::optional<double> seconds_left(int64_t step, double now) const {
    if (total <= 0 || !baseline || step <= baseline->first) return {};
    double pace = (now - baseline->second) / static_cast<double>(step - baseline->first);
    return pace * static_cast<double>(std::max<int64_t>(total - step, 0));
  }

  double part(int64_t step) const { return static_cast<double>(step) / static_cast<double>(total); }

  std::string line(int64_t step, double now, const Values& values) const {
    std::string text = label + " ";
    if (style == ProgressStyle::bar && total > 0) text += drawing(part(step)) + " ";
    text += total > 0 ? fmt::format("{}/{} ({:.0f}%)", step, total, 100 * part(step))
                      : std::to_string(step);
    for (const auto& [name, value] : values) text += fmt::format("  {} {}", name, value);
    text += "  elapsed " + human_seconds(now - start);
    if (auto left = seconds_left(step, now)) text += "  eta " + human_seconds(*left);
    return text;
  }

  std::string object(int64_t step, double now, const Values& values) const {
    auto tenths = [](double seconds) { return Node::number(std::round(seconds * 10) / 10); };
    auto node = Node::map({{"label", Node::string(label)}, {"step", Node::integer(step)}});
    if (total > 0) node["total"] = Node::integer(total);
    for (const auto& [name, value] : values) node["values"][name] = Node::scalar(value);
    node["elapsed"] = tenths(now - start);
    if (auto left = seconds_left(step, now)) node["eta"] = tenths(*left);
    return to_json(node);
  }
};

Progress::Progress(std::string label, int64_t total, ProgressStyle style, ProgressTiming timing)
    : impl_(std::make_unique<Impl>()) {
  impl_->label = std::move(label);
  impl_->total = total;
  impl_->style = settled(style);
  impl_->timing = std::move(timing);
  if (!impl_->timing.now) impl_->timing.now = steady_seconds;
  impl_->start = impl_->timing.now();
}

Progress::~Progress() {
  finish();
}

void Progress::update(int64_t step, const Values& values) {
  auto& p = *impl_;
  if (p.style == ProgressStyle::off) return;
  std::lock_guard lock(p.mutex);
  double now = p.timing.now();
  bool due = p.is_due(step, now);
  if (due && p.style == ProgressStyle::bar)
    draw_bar(cut(p.line(step, now, values), console_columns() - 1));
  if (due && p.style == ProgressStyle::plain) print_line(p.line(step, now, values));
  if (due && p.style == ProgressStyle::json) print_line(p.object(step, now, values));
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
    throw UserError({"--progress", 0}, fmt::format("{} is no style", quote(text)),
                    suggest(text, names));
  return static_cast<ProgressStyle>(found - names.begin());
}

}  // namespace longbow

#include "longbow/report/draw/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "longbow/core/log.h"
#include "longbow/report/draw/bubble_plot.h"
#include "longbow/report/draw/line_plot.h"
#include "longbow/report/table/bench_grid.h"
#include "longbow/report/table/metrics.h"
#include "longbow/report/table/number.h"

namespace longbow::reporting {
namespace {

Axis axis(const std::string& label, Spacing spacing, const std::vector<double>& values) {
  auto scale = fitted(spacing, values);
  auto negative = [](double value) { return value < 0; };
  if (spacing == Spacing::linear && std::none_of(values.begin(), values.end(), negative))
    scale.low = std::max(scale.low, 0.0);
  auto marks = ticks(scale);
  return {.label = label, .scale = scale, .marks = marks, .text = tick_text(marks)};
}

// Steps are whole numbers, so ticks are too.
Axis step_axis(std::vector<double> steps) {
  auto [least, greatest] = std::minmax_element(steps.begin(), steps.end());
  if (auto low = *least, high = *greatest; high - low < 2)
    steps.insert(steps.end(), {std::max(low - 1, 0.0), std::max(high + 1, 2.0)});
  auto result = axis("step", Spacing::linear, steps);
  std::erase_if(result.marks, [](double mark) { return mark != std::round(mark); });
  return result;
}

// Every length is a tick, or every second where there are many; where there are one or two, so are
// lengths around or between them.
Axis length_axis(const std::vector<double>& lengths) {
  auto marks = lengths;
  if (lengths.size() == 1) marks = {lengths[0] / 2, lengths[0], lengths[0] * 2};
  if (lengths.size() == 2) marks.insert(marks.begin() + 1, std::sqrt(lengths[0] * lengths[1]));
  auto result = axis("sequence length", Spacing::logarithmic, marks);
  while (marks.size() > 9) {
    std::vector<double> fewer;
    for (size_t i = 0; i < marks.size(); i += 2) fewer.push_back(marks[i]);
    marks = fewer;
  }
  result.marks = marks;
  result.text = [](double length) { return fmt::format("{:.0f}", length); };
  return result;
}

std::string joined_labels(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (auto& one : series)
    if (std::find(names.begin(), names.end(), one.label) == names.end()) names.push_back(one.label);
  return fmt::format("{}", fmt::join(names, ", "));
}

// A perplexity falls by decades at first; on a linear scale the rest would be one flat line.
Spacing spacing_of(const std::string& quantity, const std::vector<double>& values) {
  auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  auto wide = *least > 0 && *greatest > 5 * *least;
  return wide && quantity.find("perplexity") != std::string::npos ? Spacing::logarithmic
                                                                  : Spacing::linear;
}

Bubble bubble_of(const Summary& summary, const Looks& looks) {
  auto hint = fmt::format("{}: {}{}, {} tokens/s", summary.mechanism, summary.text(),
                          summary.measure.percent ? " %" : "",
                          human_count(summary.tokens_per_second->mean));
  if (summary.peak_bytes) hint += ", " + human_bytes(summary.peak_bytes->mean);
  return {.label = summary.mechanism,
          .hint = hint,
          .look = looks.at(summary.mechanism),
          .x = summary.tokens_per_second->mean,
          .y = summary.score->mean,
          .deviation = summary.score->deviation,
          .size = summary.peak_bytes ? std::optional(summary.peak_bytes->mean) : std::nullopt};
}

std::string size_label(const std::vector<Bubble>& bubbles) {
  double largest = 0;
  for (auto& bubble : bubbles) largest = std::max(largest, bubble.size.value_or(0));
  return largest > 0 ? "bubble area: peak memory, largest " + human_bytes(largest) : "";
}

// A baseline far from every score would squeeze the scores together, so only near ones widen the
// axis.
void add_near(std::vector<double>& scores, const std::vector<Level>& levels) {
  auto [least, greatest] = std::minmax_element(scores.begin(), scores.end());
  auto low = *least, high = *greatest, reach = std::max(high - low, 0.05 * std::abs(high));
  for (auto& level : levels)
    if (level.y > low - reach && level.y < high + reach) scores.push_back(level.y);
}

// Where a curve of benchmarks stands at a length, straight between its points on a log-log plot.
std::optional<double> interpolated(const Series& series, double length) {
  for (size_t i = 1; i < series.points.size(); ++i) {
    auto &a = series.points[i - 1], &b = series.points[i];
    if (length < a.x || length > b.x) continue;
    auto share = std::log(length / a.x) / std::log(b.x / a.x);
    return a.y * std::pow(b.y / a.y, share);
  }
  return {};
}

std::vector<Series> bench_series(const Record& record, const std::string& mode, const Looks& looks,
                                 std::optional<double> Benchmark::*field, bool spread) {
  std::vector<Series> result;
  for (auto& mechanism : bench_mechanisms(record, mode)) {
    Series series{.label = mechanism, .kind = "", .look = looks.at(mechanism), .points = {}};
    for (auto length : bench_lengths(record, mode)) {
      auto row = find_benchmark(record, mode, mechanism, length);
      if (!row || !(row->*field) || *(row->*field) <= 0) continue;
      auto y = *(row->*field);
      auto banded = spread && row->p20 && row->p80;
      series.points.push_back({length, y, banded ? *row->p20 : y, banded ? *row->p80 : y});
    }
    if (!series.points.empty()) result.push_back(series);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Series& a, const Series& b) { return a.look.bold < b.look.bold; });
  return result;
}

LinePlot bench_plot(const Record& record, const std::string& mode, std::vector<Series> series) {
  LinePlot plot{
      .title = "", .description = "", .x = {}, .y = {}, .series = std::move(series), .rings = {}};
  std::vector<double> values;
  for (auto& one : plot.series)
    for (auto& point : one.points) values.insert(values.end(), {point.y, point.low, point.high});
  plot.x = length_axis(bench_lengths(record, mode));
  plot.y = axis("", Spacing::logarithmic, values);
  return plot;
}

std::vector<Ring> crossovers(const Record& record, const std::string& mode, const LinePlot& plot,
                             const Looks& looks) {
  std::vector<Ring> rings;
  auto reference = std::find_if(plot.series.begin(), plot.series.end(),
                                [](const Series& series) { return is_reference(series.label); });
  if (reference == plot.series.end()) return rings;
  for (auto& growth : record.growth) {
    if (growth.mode != mode || !growth.crossover_length || !looks.contains(growth.mechanism))
      continue;
    auto y = interpolated(*reference, *growth.crossover_length);
    if (!y) continue;
    rings.push_back({*growth.crossover_length, *y, looks.at(growth.mechanism).colour,
                     fmt::format("{} is faster than {} from length {:.0f}", growth.mechanism,
                                 reference->label, *growth.crossover_length)});
  }
  return rings;
}

}  // namespace

Looks looks_of(const Record& record) {
  std::vector<std::string> names;
  for (auto& cell : record.cells) names.push_back(cell.mechanism);
  for (auto& curve : record.curves) names.push_back(curve.label);
  for (auto& row : record.benchmarks) names.push_back(row.mechanism);
  return palette(names);
}

std::string score_figure(const Table& table, const std::string& task, const Looks& looks,
                         Width width) {
  BubblePlot plot{};
  std::vector<double> speeds, scores;
  for (auto& mechanism : table.mechanisms) {
    auto& summary = table.at(mechanism, task);
    if (!summary.score) continue;
    if (summary.status == "baseline") {
      plot.levels.push_back({summary.mechanism + " " + summary.text(), summary.score->mean});
    } else if (summary.tokens_per_second && summary.tokens_per_second->mean > 0) {
      plot.bubbles.push_back(bubble_of(summary, looks));
      speeds.push_back(summary.tokens_per_second->mean);
      for (auto sign : {-1, 1})
        scores.push_back(summary.score->mean + sign * summary.score->deviation);
    }
  }
  if (plot.bubbles.size() < 2) return "";
  add_near(scores, plot.levels);
  plot.x = axis("tokens per second", Spacing::logarithmic, speeds);
  plot.y = axis(table.measure(task).heading(), Spacing::linear, scores);
  plot.size_label = size_label(plot.bubbles);
  plot.title = fmt::format("{}: score, speed and memory", task);
  std::vector<std::string> hints;
  for (auto& bubble : plot.bubbles) hints.push_back(bubble.hint);
  plot.description = fmt::format("{}.", fmt::join(hints, "; "));
  return bubble_plot(plot, width);
}

std::string curve_figure(const Record& record, const std::string& task, const std::string& quantity,
                         const Looks& looks, Width width) {
  LinePlot plot{};
  std::vector<double> steps, values;
  const auto measure = measure_of(quantity);
  auto all = bands(record.curves, task, quantity);
  auto is_train = [](const Band& band) { return band.split == "train"; };
  auto has_more = [&](const std::string& label) {
    return std::any_of(all.begin(), all.end(), [&](const Band& band) {
      return band.label == label && !is_train(band) && band.points.size() > 1;
    });
  };
  const auto depth = [&](const Band& band) {  // what is drawn later covers what was before
    return std::pair(!is_train(band), looks.at(band.label).bold);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Band& a, const Band& b) { return depth(a) < depth(b); });
  for (auto& band : all) {
    if (band.points.empty()) continue;
    Series series{
        .label = band.label, .kind = band.split, .look = looks.at(band.label), .points = {}};
    series.faint = is_train(band) && has_more(band.label);
    series.hollow = band.split == "test";
    for (auto& [step, mean, low, high] : band.points) {
      series.points.push_back({step, measure.shown(mean), measure.shown(low), measure.shown(high)});
      if (!std::isfinite(mean)) continue;
      steps.push_back(step);
      for (auto value : {mean, low, high}) values.push_back(measure.shown(value));
    }
    plot.series.push_back(series);
  }
  if (values.empty()) return "";
  plot.x = step_axis(steps);
  plot.y = axis(quantity_label(measure.heading()), spacing_of(quantity, values), values);
  plot.title = fmt::format("{}: {} over steps", task, quantity_label(quantity));
  plot.description =
      fmt::format("Curves of {}; the band spans the seeds.", joined_labels(plot.series));
  return line_plot(plot, width);
}

std::string time_figure(const Record& record, const std::string& mode, const Looks& looks,
                        Width width) {
  auto plot =
      bench_plot(record, mode, bench_series(record, mode, looks, &Benchmark::seconds, true));
  if (plot.series.empty()) return "";
  plot.rings = crossovers(record, mode, plot, looks);
  plot.y.label = "time of one call";
  plot.y.text = duration_text;
  plot.title = fmt::format("{}: time over length", mode);
  plot.description =
      fmt::format("Log-log curves of {}; the band spans p20 to p80.", joined_labels(plot.series));
  for (auto& ring : plot.rings) plot.description += " " + ring.words + ".";
  return line_plot(plot, width);
}

std::string memory_figure(const Record& record, const std::string& mode, const Looks& looks,
                          Width width) {
  auto plot =
      bench_plot(record, mode, bench_series(record, mode, looks, &Benchmark::peak_bytes, false));
  if (plot.series.empty()) return "";
  plot.y.label = "peak memory";
  plot.y.marks = binary_ticks(plot.y.scale);
  plot.y.text = human_bytes;
  plot.title = fmt::format("{}: memory over length", mode);
  plot.description = fmt::format("Log-log curves of {}.", joined_labels(plot.series));
  return line_plot(plot, width);
}

std::vector<std::string> quantities(const Record& record, const std::string& task) {
  std::vector<std::string> result;
  for (auto& curve : record.curves)
    if (curve.task == task &&
        std::find(result.begin(), result.end(), curve.quantity) == result.end())
      result.push_back(curve.quantity);
  std::stable_partition(result.begin(), result.end(), [](auto& name) { return name == "loss"; });
  return result;
}

std::vector<std::string> curve_tasks(const Record& record) {
  std::vector<std::string> result;
  for (auto& curve : record.curves)
    if (std::find(result.begin(), result.end(), curve.task) == result.end())
      result.push_back(curve.task);
  return result;
}

std::string quantity_label(const std::string& quantity) {
  auto label = quantity;
  std::replace(label.begin(), label.end(), '_', ' ');
  return label;
}

}  // namespace longbow::reporting

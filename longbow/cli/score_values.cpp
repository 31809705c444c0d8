// `score classification` and `score regression`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "longbow/cli/commands.h"
#include "longbow/cli/score.h"
#include "longbow/metrics/characters.h"
#include "longbow/metrics/classification.h"
#include "longbow/metrics/correlation.h"
#include "longbow/metrics/regression.h"
#include "longbow/report/table/grid.h"

namespace longbow::cli {
namespace {

// A matrix of more would not be read by anyone; texts and numbers are not labels.
constexpr size_t kMostLabels = 1000;

std::string word_of(const LineFile& file, size_t index, const char* missing) {
  const std::string word(metrics::trimmed(file.lines[index]));
  if (word.empty())
    throw UserError(Place{file.name, static_cast<int>(index) + 1}, missing,
                    "give one on each line");
  return word;
}

std::vector<std::string> labels_of(const LineFile& file) {
  std::vector<std::string> labels;
  for (size_t i = 0; i < file.lines.size(); ++i)
    labels.push_back(word_of(file, i, "there is no label"));
  return labels;
}

std::vector<double> values_of(const LineFile& file) {
  std::vector<double> values;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const auto word = word_of(file, i, "there is no number");
    double value = 0;
    const auto* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value))
      throw UserError(Place{file.name, static_cast<int>(i) + 1}, quote(word) + " is not a number",
                      "give one on each line");
    values.push_back(value);
  }
  return values;
}

// A share, which a table shows with as many digits as the others.
std::string four_digits(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "–";
}
// An error or a p value may be of any size.
std::string six_digits(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "–";
}

struct NamedScores {
  std::string name;
  metrics::ClassScores scores;
};

Node json_of(const metrics::ClassScores& scores) {
  return Node::map({{"precision", number_or_null(scores.precision)},
                    {"recall", number_or_null(scores.recall)},
                    {"f1", number_or_null(scores.f1)}});
}

std::vector<size_t> classes_of(const ScoreClassificationCommand& command,
                               const std::vector<std::string>& names) {
  std::vector<size_t> classes;
  for (const auto& label : command.labels) {
    const auto found = std::ranges::find(names, label);
    if (found == names.end())
      throw UserError(Place{"--labels", 0}, quote(label) + " occurs in neither file",
                      suggest(label, names));
    classes.push_back(static_cast<size_t>(found - names.begin()));
  }
  return classes;
}

Node json_of(const metrics::ConfusionMatrix& matrix) {
  Node rows = Node::list();
  for (size_t i = 0; i < matrix.classes(); ++i) {
    Node row = Node::list();
    for (size_t j = 0; j < matrix.classes(); ++j)
      row.items.push_back(Node::integer(static_cast<int64_t>(matrix.at(i, j))));
    rows.items.push_back(std::move(row));
  }
  return rows;
}

struct ClassificationReport {
  std::vector<std::pair<std::string, double>> overall;
  std::vector<NamedScores> averages, classes;
};

ClassificationReport report_of(const metrics::ConfusionMatrix& matrix,
                               const std::vector<std::string>& names,
                               const metrics::AverageOptions& options) {
  using metrics::Average;
  ClassificationReport report;
  report.overall = {{"accuracy", metrics::accuracy(matrix)},
                    {"balanced_accuracy", metrics::balanced_accuracy(matrix)},
                    {"matthews", metrics::matthews(matrix)},
                    {"cohen_kappa", metrics::cohen_kappa(matrix)}};
  report.averages = {{"macro", average_scores(matrix, Average::macro, options)},
                     {"micro", average_scores(matrix, Average::micro, options)},
                     {"weighted", average_scores(matrix, Average::weighted, options)}};
  for (size_t of = 0; of < names.size(); ++of)
    if (options.classes.empty() || std::ranges::count(options.classes, of) > 0)
      report.classes.push_back({names[of], scores_of(matrix, of, options.zero_division)});
  return report;
}

Node json_of(const ClassificationReport& report, const metrics::ConfusionMatrix& matrix,
             const std::vector<std::string>& names) {
  Node node = Node::map({{"samples", Node::integer(static_cast<int64_t>(matrix.total()))}});
  for (const auto& [name, value] : report.overall) node[name] = number_or_null(value);
  for (const auto& [name, scores] : report.averages) node[name] = json_of(scores);
  node["classes"] = Node::list();
  for (const auto& [name, scores] : report.classes) {
    auto row = json_of(scores);
    row.entries.emplace(row.entries.begin(), "label", Node::string(name));
    row["support"] = Node::integer(static_cast<int64_t>(scores.support));
    node["classes"].items.push_back(std::move(row));
  }
  node["labels"] = Node::list();
  for (const auto& name : names) node["labels"].items.push_back(Node::string(name));
  node["confusion"] = json_of(matrix);
  return node;
}

void print(const ClassificationReport& report) {
  for (const auto& [name, value] : report.overall)
    fmt::print("{:<18} {}\n", name, four_digits(value));
  reporting::Grid grid;
  grid.columns = {"class", "precision", "recall", "f1", "support"};
  for (const auto* part : {&report.classes, &report.averages})
    for (const auto& [name, scores] : *part)
      grid.rows.push_back({{name},
                           {four_digits(scores.precision)},
                           {four_digits(scores.recall)},
                           {four_digits(scores.f1)},
                           {fmt::format("{}", scores.support)}});
  fmt::print("\n{}", reporting::console_grid(grid));
}

}  // namespace

int run(const ScoreClassificationCommand& command) {
  const auto files = read_aligned({command.predictions, command.references});
  const auto labels = metrics::index_labels(labels_of(files[1]), labels_of(files[0]));
  if (labels.names.size() > kMostLabels)
    throw UserError(
        Place{files[0].name, 0}, fmt::format("{} different labels", labels.names.size()),
        fmt::format("at most {}; for numbers take `longbow score regression`", kMostLabels));
  metrics::ConfusionMatrix matrix(labels.names.size());
  matrix.add(labels.truths, labels.predictions);
  const auto classes = classes_of(command, labels.names);
  const auto report =
      report_of(matrix, labels.names, {.zero_division = command.zero_division, .classes = classes});
  if (command.json)
    fmt::print("{}\n", to_json(json_of(report, matrix, labels.names), 2));
  else
    print(report);
  return 0;
}

int run(const ScoreRegressionCommand& command) {
  const auto files = read_aligned({command.predictions, command.references});
  const auto predictions = values_of(files[0]), targets = values_of(files[1]);
  const auto pearson = metrics::pearson(predictions, targets);
  const auto spearman = metrics::spearman(predictions, targets);
  std::vector<std::pair<std::string, double>> values = {
      {"pearson", pearson.value},
      {"pearson_p_value", pearson.p_value},
      {"spearman", spearman.value},
      {"spearman_p_value", spearman.p_value},
      {"kendall_tau_b", metrics::kendall_tau_b(predictions, targets)},
      {"mean_squared_error", metrics::mean_squared_error(predictions, targets)},
      {"mean_absolute_error", metrics::mean_absolute_error(predictions, targets)},
      {"r_squared", metrics::r_squared(predictions, targets)}};
  if (command.threshold)
    values.emplace_back("f1_at_threshold",
                        metrics::f1_at_threshold(predictions, targets, *command.threshold));
  if (!command.json) {
    for (const auto& [name, value] : values) fmt::print("{:<20} {}\n", name, six_digits(value));
    return 0;
  }
  Node node = Node::map({{"samples", Node::integer(static_cast<int64_t>(targets.size()))}});
  for (const auto& [name, value] : values) node[name] = number_or_null(value);
  if (command.threshold) node["threshold"] = Node::number(*command.threshold);
  fmt::print("{}\n", to_json(node, 2));
  return 0;
}

}  // namespace longbow::cli

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "longbow/cli/asking.h"
#include "longbow/cli/dialogue.h"
#include "longbow/tasks/prediction.h"

namespace longbow::cli {
namespace {

// The first samples of a data set.
class First final : public Dataset {
 public:
  First(const Dataset& all, int64_t count) : all_(all), count_(std::min(count, all.size())) {}
  int64_t size() const override { return count_; }
  int64_t length(int64_t i) const override { return all_.length(i); }
  Sample get(int64_t i) const override { return all_.get(i); }
  bool per_token() const override { return all_.per_token(); }
  int64_t targets() const override { return all_.targets(); }
  int64_t values() const override { return all_.values(); }
  bool has_second() const override { return all_.has_second(); }
  bool has_segments() const override { return all_.has_segments(); }

 private:
  const Dataset& all_;
  int64_t count_;
};

std::string shown(const Node& value) {
  if (value.is_null()) return "-";
  if (!value.is_list()) return value.text;
  std::string text;
  for (const auto& item : value.items) text += (text.empty() ? "" : " ") + shown(item);
  return text;
}

// Column by column, with TABs between them; those of an input become bars.
std::string shown_line(const Node& prediction) {
  std::string line;
  for (const auto& [name, value] : prediction.entries) {
    auto text = shown(value);
    for (size_t at; (at = text.find('\t')) != std::string::npos;) text.replace(at, 1, " | ");
    line += (line.empty() ? "" : "\t") + text;
  }
  return line;
}

// Predictions, with the names of their columns above the first.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}
  void operator()(const std::vector<Node>& predictions) {
    for (const auto& prediction : predictions) {
      if (!json_ && first_) fmt::print("{}\n", fmt::join(prediction.keys(), "\t"));
      first_ = false;
      fmt::print("{}\n", json_ ? to_json(prediction) : shown_line(prediction));
    }
  }

 private:
  bool json_, first_ = true;
};

Node with_input(const std::string& input, Node prediction) {
  prediction.entries.insert(prediction.entries.begin(), {"input", Node::string(input)});
  return prediction;
}

std::vector<Node> predictions_of(Task& task, const std::vector<Line>& lines,
                                 const SamplerConfig& trained) {
  const auto data = inputs_of(task, lines);
  std::vector<Node> all(lines.size());
  for_batches(task, *data, as_trained(trained, task.texts().longest), /*seed=*/0,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                auto said = task.predict(batch, random);
                for (size_t row = 0; row < indices.size(); ++row) {
                  const auto i = static_cast<size_t>(indices[row]);
                  all[i] = with_input(lines[i].text, std::move(said[row]));
                }
              });
  return all;
}

// In the batches and with the draws of an evaluation, so that its metrics are those of what is
// shown.
std::vector<Node> predictions_of(Task& task, const Dataset& split, const SamplerConfig& trained) {
  std::vector<Node> all(static_cast<size_t>(split.size()));
  for_batches(task, split, trained, /*seed=*/0,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                const auto posed = task.posed(batch, random);
                auto said = task.predict(posed, random);
                for (size_t row = 0; row < indices.size(); ++row)
                  all[static_cast<size_t>(indices[row])] = with_input(
                      input_text(task, posed, static_cast<int64_t>(row)), std::move(said[row]));
              });
  return all;
}

}  // namespace

int run(const PredictCommand& command) {
  const bool own = !command.split.empty();
  if (own) check_split(command.split);
  if (own && !command.file.empty())
    throw UserError(Place{"--split", 0}, "--file is given too", "leave one of them out");
  const auto opened = open_for("predict", command.folder, command.device);
  auto& task = *opened.task;
  const auto& trained = opened.config.train.sampler;
  const auto file = command.file.empty() ? "-" : command.file;
  Printer print(command.json);
  if (own) {
    const auto& split = split_of(task, command.split);
    const First data(split, command.limit > 0 ? command.limit : split.size());
    print(predictions_of(task, data, trained));
  } else if (is_typed(file)) {
    converse(opened, command.limit,
             [&](const Line& line) { print(predictions_of(task, {line}, trained)); });
  } else {
    auto lines = input_lines(file);
    if (command.limit > 0 && std::ssize(lines) > command.limit)
      lines.resize(static_cast<size_t>(command.limit));
    print(predictions_of(task, lines, trained));
  }
  return 0;
}

}  // namespace longbow::cli

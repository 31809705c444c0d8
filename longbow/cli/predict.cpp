#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "longbow/cli/asking.h"
#include "longbow/cli/device.h"
#include "longbow/cli/dialogue.h"
#include "longbow/predict/predictions.h"

namespace longbow::cli {
namespace {

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

std::vector<Node> predictions_on_split(const PredictCommand& command) {
  const auto run = open_run(command.folder, parse_device(command.device));
  check_command(run.config.objective, "predict", command.folder);
  run.task->model().eval();
  return predict::predictions_of(*run.task, split_of(*run.task, command.split),
                                 run.config.train.sampler, command.limit);
}

}  // namespace

int run(const PredictCommand& command) {
  const bool own = !command.split.empty();
  if (own) check_split(command.split);
  if (own && !command.file.empty())
    throw UserError(Place{"--split", 0}, "--file is given too", "leave one of them out");
  const auto file = command.file.empty() ? "-" : command.file;
  Printer print(command.json);
  if (own) {
    print(predictions_on_split(command));
    return 0;
  }
  const auto model = open_for("predict", command.folder, command.device);
  const auto& trained = model.config().train.sampler;
  if (is_typed(file)) {
    converse(model, command.limit, [&](const predict::Line& line) {
      print(predict::predictions_of(model.task(), {line}, trained));
    });
    return 0;
  }
  auto lines = input_lines(file);
  if (command.limit > 0 && std::ssize(lines) > command.limit)
    lines.resize(static_cast<size_t>(command.limit));
  print(predict::predictions_of(model.task(), lines, trained));
  return 0;
}

}  // namespace longbow::cli

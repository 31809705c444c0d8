#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/train/trainer.h"

namespace longbow::cli {
namespace {

std::string fresh_folder(const RunConfig& config) {
  const std::time_t now = std::time(nullptr);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&now));
  return fmt::format("runs/{}-{}-{}", config.task, mechanism_label(config.model.encoder), stamp);
}

}  // namespace

int run(const TrainCommand& command) {
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  if (command.seed >= 0) assign(tree, "seed=" + std::to_string(command.seed));
  const auto config = read_run_config(tree);
  if (command.resume && command.out.empty())
    throw UserError(Place{"--resume", 0}, "no run is named", "give its folder with --out");
  const auto out = command.out.empty() ? fresh_folder(config) : command.out;
  const auto result = train(config, {.out = out,
                                     .resume = command.resume,
                                     .device = parse_device(command.device),
                                     .progress = parse_progress(command.progress)});
  fmt::print(
      "{} on {}: {} {:.2f} % ({}, weights chosen on {} at step {}), {} parameters, {} tokens/s, "
      "{}\n",
      result.mechanism, result.task, result.metric, 100 * result.score, result.split,
      result.chosen_by, result.best_step, human_count(static_cast<double>(result.parameters)),
      human_count(result.tokens_per_second), human_bytes(result.peak_bytes));
  fmt::print("{}\n", out);
  return 0;
}

int run(const EvalCommand& command) {
  if (command.split != "train" && command.split != "valid" && command.split != "test")
    throw UserError(Place{"--split", 0}, "unknown split '" + command.split + "'",
                    "one of: train, valid, test");
  auto finished = open_run(command.folder, parse_device(command.device));
  const auto& splits = finished.task->splits();
  const auto& data = command.split == "train"   ? splits.train
                     : command.split == "valid" ? splits.valid
                                                : splits.test;
  const auto score = evaluate(*finished.task, *data, finished.config.train.sampler);
  if (command.json)
    fmt::print("{}\n", to_json(Node::map({{"split", Node::string(command.split)},
                                          {"count", Node::integer(score.count)},
                                          {"accuracy", Node::number(score.accuracy)},
                                          {"loss", Node::number(score.loss)}})));
  else
    fmt::print("{}: accuracy {:.2f} %, loss {:.4f}, {} targets\n", command.split,
               100 * score.accuracy, score.loss, score.count);
  return 0;
}

}  // namespace longbow::cli

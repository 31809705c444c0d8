#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "longbow/cli/asking.h"
#include "longbow/cli/command_line.h"
#include "longbow/cli/device.h"
#include "longbow/cli/failure.h"
#include "longbow/cli/threads.h"
#include "longbow/core/folder.h"
#include "longbow/core/interruption.h"
#include "longbow/core/run_folder.h"
#include "longbow/core/work.h"
#include "longbow/report/table/grid.h"
#include "longbow/report/table/number.h"
#include "longbow/train/run/dry_run.h"
#include "longbow/train/run/evaluate.h"
#include "longbow/train/run/finished_run.h"
#include "longbow/train/run/footprint.h"
#include "longbow/train/run/throughput.h"
#include "longbow/train/run/train.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

std::string fresh_folder(const RunConfig& config) {
  const std::time_t now = std::time(nullptr);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&now));
  constexpr size_t kLongest = 100;  // of a model with many mechanisms
  const auto mechanism = file_name(mechanism_label(config.model)).substr(0, kLongest);
  return free_path(fmt::format("runs/{}-{}-{}", file_name(config.task), mechanism, stamp));
}

std::string shape_of(const std::vector<int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// A run folder in the place of a config is its own config and its own --out.
TrainCommand of_run(TrainCommand command) {
  const auto folder = command.config;
  if (!fs::is_directory(folder)) return command;
  if (!command.resume)
    throw UserError(Place{folder, 0}, "is a folder", "--resume continues the run in it");
  const RunFolder run(folder);
  run.check_run();
  command.config = run.config();
  if (command.out.empty()) command.out = folder;
  return command;
}

std::string how_to_continue(const std::string& out, const TrainCommand& command) {
  if (!RunFolder(out).is_run()) return "nothing has been trained yet";
  std::vector<std::string> words = {"train", out, "--resume"};
  if (command.device != TrainCommand().device)
    words.insert(words.end(), {"--device", command.device});
  if (const auto threads = given_threads(); threads > 0)
    words.insert(words.end(), {"--threads", std::to_string(threads)});
  return "everything is saved, continue with: " + command_line(words);
}

Result trained(const RunConfig& config, const std::string& out, const TrainCommand& command) {
  try {
    return train(config, {.out = out,
                          .resume = command.resume,
                          .device = parse_device(command.device),
                          .progress = parse_progress(command.progress),
                          .label = command.label,
                          .after = {command.further, command.seconds_each}});
  } catch (const Interrupted& stopped) {
    throw Interrupted(stopped.signal, how_to_continue(out, command));
  }
}

int show(const DryRun& run) {
  reporting::Grid parameters = {.columns = {"parameter", "shape", "count"}, .text_columns = 2},
                  modules = {.columns = {"module", "count"}};
  for (const auto& row : run.parameters)
    parameters.rows.push_back({{row.name}, {shape_of(row.shape)}, {std::to_string(row.count)}});
  for (const auto& row : run.modules)
    modules.rows.push_back({{row.name}, {std::to_string(row.count)}});
  modules.rows.push_back({{"total"}, {std::to_string(run.total)}});
  fmt::print("{}\n{}", console_grid(parameters), console_grid(modules));
  const double all = run.weights + run.gradients + run.optimizer + run.average + run.activations;
  fmt::print("\nmemory {}: weights {}, gradients {}, optimiser {}, average {}, activations {}\n",
             human_bytes(all), human_bytes(run.weights), human_bytes(run.gradients),
             human_bytes(run.optimizer), human_bytes(run.average), human_bytes(run.activations));
  fmt::print("one step on {} samples of {} tokens: loss {:.4f}, {}\n", run.samples, run.length,
             run.loss, human_seconds(run.seconds));
  return 0;
}

// The throughput of a finished run, measured again with nothing beside it.
int measure(const RunConfig& config, const TrainCommand& command) {
  auto result = read_result(command.out);
  result.tokens_per_second = measured_throughput(config, parse_device(command.device));
  result.shared = false;
  write_result(result, command.out);
  return 0;
}

// What torchrun and its like set: each of their processes would train the same run.
void check_processes() {
  const auto* text = std::getenv("WORLD_SIZE");
  const std::string_view given = text ? text : "";
  int64_t processes = 0;
  std::from_chars(given.data(), given.data() + given.size(), processes);
  if (processes > 1)
    throw UserError(fmt::format("WORLD_SIZE is {}, but a run is one process", processes),
                    "start it once, without torchrun; `longbow arena --jobs` trains several runs "
                    "side by side");
}

int run_train(const TrainCommand& given) {
  const InterruptionGuard guard;
  check_processes();
  const auto command = of_run(given);
  show_work(parse_progress(command.progress));
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  if (command.seed >= 0) assign(tree, "seed=" + std::to_string(command.seed));
  if (command.resume && !command.out.empty()) recall_start(tree, command.out);
  const auto config = read_run_config(tree);
  if (command.dry_run) return show(dry_run(config, parse_device(command.device)));
  if (command.resume && command.out.empty())
    throw UserError(Place{"--resume", 0}, "no run is named", "give its folder with --out");
  if (command.measure) return measure(config, command);
  check_footprint(config, parse_device(command.device));
  const auto out = command.out.empty() ? fresh_folder(config) : command.out;
  const auto result = trained(config, out, command);
  if (!result.score)
    throw std::runtime_error(fmt::format("{}: {}: {}", out, result.status, result.reason));
  fmt::print(
      "{} on {}: {} ({}, weights chosen on {} at step {}), {} parameters, {} tokens/s, "
      "{}\n",
      result.mechanism, result.task, reporting::measure_of(result.metric).sentence(*result.score),
      result.split, result.chosen_by, result.best_step,
      human_count(static_cast<double>(result.parameters)), human_count(result.tokens_per_second),
      human_bytes(result.peak_bytes));
  fmt::print("{}\n", out);
  return 0;
}

}  // namespace

int run(const TrainCommand& command) {
  try {
    return run_train(command);
  } catch (const Interrupted& stopped) {
    if (command.failure.empty()) throw;
    return 128 + stopped.signal;  // the arena says how to continue
  } catch (...) {
    if (command.failure.empty()) throw;
    const auto failure = failure_of(std::current_exception());
    write_failure(failure, command.failure);
    return failure.code;
  }
}

int run(const EvalCommand& command) {
  check_split(command.split);
  show_work(ProgressStyle::automatic);
  auto finished = open_run(command.folder, parse_device(command.device));
  const auto data = split_of(*finished.task, command.split);
  const auto score = evaluate(*finished.task, *data, finished.config.train.sampler);
  if (command.json) {
    auto line =
        Node::map({{"split", Node::string(command.split)}, {"count", Node::integer(score.count)}});
    for (const auto& metric : score.metrics)
      line[metric.name] = std::isfinite(metric.value) ? Node::number(metric.value) : Node{};
    fmt::print("{}\n", to_json(line));
  } else {
    std::string text;
    for (const auto& metric : score.metrics)
      text += " " + reporting::measure_of(metric.name).sentence(metric.value) + ",";
    fmt::print("{}:{} {} targets\n", command.split, text, score.count);
  }
  return 0;
}

}  // namespace longbow::cli

// A matrix of mechanisms x tasks x seeds from one YAML file. Every cell is a run folder of its own,
// so an arena that stopped goes on where it was, and a cell that fails says why and stops nobody
// else.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <filesystem>
#include <optional>

#include "longbow/arena/plan.h"
#include "longbow/cli/command_line.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/failure.h"
#include "longbow/core/file.h"
#include "longbow/core/folder.h"
#include "longbow/core/interruption.h"
#include "longbow/core/lock.h"
#include "longbow/core/run_folder.h"
#include "longbow/core/version.h"
#include "longbow/core/work.h"
#include "longbow/report/table/number.h"
#include "longbow/report/write/report.h"
#include "longbow/train/run/footprint.h"
#include "longbow/train/run/train.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

using arena::ArenaCell;
using arena::ArenaConfig;

Result failed(const ArenaCell& cell, const std::string& status, const std::string& reason) {
  return {.task = cell.task,
          .mechanism = cell.label,
          .seed = cell.seed,
          .metric = "",
          .status = status,
          .reason = reason};
}

// One that cannot be read is made again.
std::optional<Result> finished(const std::string& results) {
  if (!fs::exists(results)) return {};
  try {
    return read<Result>(parse_json(read_file(results), results));
  } catch (const UserError& error) {
    warn(error.what());
    return {};
  }
}

// A cell that comes later; that a mechanism cannot do a task is known before.
Result waiting(const ArenaCell& cell) {
  return failed(cell, cell.refusal.empty() ? "pending" : "n.a.", cell.refusal);
}

// A finished cell of the same config is read, a broken-off one resumed, one of another config
// replaced.
Result run_cell(const ArenaCell& cell, const std::string& out, const ArenaCommand& command,
                const std::string& label, const Queue& after) {
  if (!cell.refusal.empty()) return failed(cell, "n.a.", cell.refusal);
  const RunFolder folder(fs::path(out) / cell.folder);
  const auto request = folder.request();
  const auto text = to_yaml(written(cell.config));
  if (fs::exists(request) && read_file(request) == text) {
    if (auto result = finished(folder.results())) return *result;
  } else {
    fs::remove_all(folder.path());
    make_folder(folder.path());
    write_file(request, text);
  }
  try {
    check_footprint(cell.config, parse_device(command.device));
    return train(cell.config, {.out = folder.path(),
                               .resume = true,
                               .device = parse_device(command.device),
                               .progress = parse_progress(command.progress),
                               .label = label,
                               .after = after});
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    const auto failure = failure_of(std::current_exception());
    return failed(cell, failure.out_of_memory ? "OOM" : "FAIL", failure.text);
  }
}

Node sites_of(const ArenaCell& cell) {
  Node sites = Node::list();
  for (const auto& site : cell.sites) sites.items.push_back(Node::string(site));
  return sites;
}

const char* format_of(const std::string& metric) {
  return reporting::measure_of(metric).percent ? "percent" : "number";
}

Node json_of(const Result& result, const ArenaCell& cell) {
  Node row = written(result);
  row["mechanism"] = Node::string(cell.label);
  row["task"] = Node::string(cell.task);
  row["format"] = Node::string(format_of(result.metric));
  row["sites"] = sites_of(cell);
  row["run"] = Node::string(cell.folder);
  if (result.status == "ok") return row;
  for (const auto* key :
       {"metric", "larger_is_better", "format", "score", "valid_score", "parameters", "steps",
        "best_step", "tokens_per_second", "peak_bytes", "seconds"})
    row[key] = Node{};
  return row;
}

Node json_of(const Baseline& baseline, const std::string& task) {
  return Node::map({{"mechanism", Node::string(baseline.name)},
                    {"task", Node::string(task)},
                    {"seed", Node::integer(0)},
                    {"metric", Node::string(baseline.metric)},
                    {"larger_is_better", Node::boolean(baseline.larger_is_better)},
                    {"format", Node::string(format_of(baseline.metric))},
                    {"score", Node::number(baseline.score)},
                    {"parameters", Node::integer(0)},
                    {"tokens_per_second", Node{}},
                    {"peak_bytes", Node{}},
                    {"status", Node::string("baseline")},
                    {"reason", Node::string(baseline.meaning)},
                    {"split", Node::string("test")},
                    {"chosen_by", Node::string("train")}});
}

Node json_of(const arena::PublishedRow& row) {
  return Node::map({{"mechanism", Node::string(row.mechanism)},
                    {"task", Node::string(row.task)},
                    {"seed", Node::integer(0)},
                    {"metric", Node::string(row.metric)},
                    {"format", Node::string(format_of(row.metric))},
                    {"score", Node::number(row.score)},
                    {"status", Node::string("published")},
                    {"reason", Node::string(row.cite)}});
}

// The rows of each task to compare with, for the metric that its cells were scored by. Its data is
// read once, and checked against the model of every cell.
class References {
 public:
  References(const std::vector<ArenaCell>& cells, std::vector<arena::PublishedRow> published)
      : published_(std::move(published)) {
    Splits splits;
    for (const auto& [task, label, seed, folder, sites, config, refusal] : cells) {
      if (!refusal.empty()) continue;
      if (tasks_.empty() || tasks_.back().first != task) {
        splits = load_data(config.data);
        tasks_.emplace_back(task, baselines(config.data, config.objective, splits));
      }
      find_objective(config.objective)
          .check_data(splits, config.model, config.train.sampler.bucket);
    }
  }
  void choose(const std::string& task, const std::string& metric) {
    for (auto& [name, rows] : tasks_)
      if (name == task) std::erase_if(rows, [&](const auto& row) { return row.metric != metric; });
    std::erase_if(published_,
                  [&](const auto& row) { return row.task == task && row.metric != metric; });
  }
  void add_to(std::vector<Node>& list) const {
    for (const auto& row : published_)
      if (std::ranges::find(tasks_, row.task, [](const auto& task) { return task.first; }) !=
          tasks_.end())
        list.push_back(json_of(row));
    for (const auto& [task, rows] : tasks_)
      for (const auto& row : rows) list.push_back(json_of(row, task));
  }

 private:
  std::vector<std::pair<std::string, std::vector<Baseline>>> tasks_;
  std::vector<arena::PublishedRow> published_;
};

Node context_of(const ArenaConfig& config, const ArenaCommand& command) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  return Node::map({{"name", Node::string(config.name)},
                    {"command", Node::string("longbow arena " + command.config)},
                    {"version", Node::string(version())},
                    {"commit", Node::string(commit())},
                    {"compiler", Node::string(compiler())},
                    {"machine", Node::string(machine_of(parse_device(command.device)))},
                    {"date", Node::string(date)}});
}

void write_record(const Node& rows, const Node& context, const std::string& out) {
  const auto in = [&](const char* name) { return (fs::path(out) / name).string(); };
  write_file(RunFolder(out).results(), to_json(rows, 2) + "\n");
  write_file(in("context.json"), to_json(context, 2) + "\n");
  const auto record = load_record(out);
  write_file(in("table.md"), to_markdown(record));
  write_file(in("table.csv"), to_csv(record));
  write_file(in("report.html"), to_html(record));
}

std::string label_of(const std::vector<ArenaCell>& cells, size_t i) {
  const auto& cell = cells[i];
  const bool one_seed = std::all_of(cells.begin(), cells.end(),
                                    [&](const auto& other) { return other.seed == cell.seed; });
  return fmt::format("[{}/{}] {} on {}{}", i + 1, cells.size(), cell.label, cell.task,
                     one_seed ? "" : fmt::format(", seed {}", cell.seed));
}

void tell(const std::string& label, const Result& result) {
  info(result.status == "ok"
           ? fmt::format("{}: {}, {} tokens/s, {}", label,
                         reporting::measure_of(result.metric).sentence(result.score.value_or(0)),
                         human_count(result.tokens_per_second), human_seconds(result.seconds))
           : fmt::format("{}: {} ({})", label, result.status, result.reason));
}

// How long the cells that were trained here took, for the time that the others need.
class Forecast {
 public:
  Forecast(const std::vector<ArenaCell>& cells, const std::string& out) {
    for (const auto& cell : cells)
      open_.push_back(cell.refusal.empty() &&
                      !fs::exists(RunFolder(fs::path(out) / cell.folder).results()));
  }
  Queue after(size_t cell) const {
    return {
        .further = std::count(open_.begin() + static_cast<int64_t>(cell) + 1, open_.end(), true),
        .seconds_each = trained_ > 0 ? seconds_ / static_cast<double>(trained_) : 0};
  }
  void took(size_t cell, double seconds) {
    if (!open_[cell]) return;
    seconds_ += seconds;
    ++trained_;
  }

 private:
  std::vector<bool> open_;
  double seconds_ = 0;
  int64_t trained_ = 0;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int compete(const ArenaConfig& config, const std::vector<ArenaCell>& cells, const std::string& out,
            const ArenaCommand& command) {
  const FolderLock lock(out);
  References references(cells, published_rows(config));
  Forecast forecast(cells, out);
  std::vector<Node> rows;
  bool all_fine = true;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& cell = cells[i];
    const auto start = seconds_now();
    const auto label = label_of(cells, i);
    const auto result = run_cell(cell, out, command, label, forecast.after(i));
    forecast.took(i, seconds_now() - start);
    tell(label, result);
    all_fine = all_fine && (result.status == "ok" || !cell.refusal.empty());
    rows.push_back(json_of(result, cell));
    if (result.status == "ok") references.choose(cell.task, result.metric);
    auto all = Node::list();
    all.items = rows;
    for (size_t later = i + 1; later < cells.size(); ++later)
      all.items.push_back(json_of(waiting(cells[later]), cells[later]));
    references.add_to(all.items);
    write_record(all, context_of(config, command), out);
    if (i + 1 < cells.size()) check_interruption();
  }
  return all_fine ? 0 : 1;
}

std::string how_to_continue(const std::string& out, const ArenaCommand& command) {
  std::vector<std::string> words = {"arena", command.config};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--mechanisms", fmt::format("{}", fmt::join(command.mechanisms, ",")));
  add("--tasks", fmt::format("{}", fmt::join(command.tasks, ",")));
  add("--seeds", command.seeds > 0 ? std::to_string(command.seeds) : "");
  add("--out", out);
  for (const auto& assignment : command.set) add("--set", assignment);
  add("--device", command.device == ArenaCommand().device ? "" : command.device);
  return "everything is saved, continue with: " + command_line(words);
}

}  // namespace

int run(const ArenaCommand& command) {
  const InterruptionGuard guard;
  show_work(parse_progress(command.progress));
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  const auto config = read<ArenaConfig>(tree);
  const auto cells = arena::plan(
      config, {.mechanisms = command.mechanisms, .tasks = command.tasks, .seeds = command.seeds});
  if (cells.empty())
    throw UserError(tree.place, "the arena has no cell", "give it tasks and mechanisms");
  if (const auto* name = tree.find("name"); name && command.out.empty())
    arena::check_folder_name(config.name, name->place);
  const auto out = command.out.empty() ? "runs/" + config.name : command.out;
  int code = 0;
  try {
    code = compete(config, cells, out, command);
  } catch (const Interrupted& stopped) {
    throw Interrupted(stopped.signal, how_to_continue(out, command));
  }
  fmt::print("{}\n{}\n", console_table(load_record(out)), (fs::path(out) / "report.html").string());
  return code;
}

}  // namespace longbow::cli

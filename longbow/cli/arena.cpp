// A matrix of mechanisms x tasks x seeds from one YAML file. Every cell is a run folder of its own,
// so an arena that stopped goes on where it was, and a cell that fails says why and stops nobody
// else.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>

#include "longbow/arena/match.h"
#include "longbow/arena/plan.h"
#include "longbow/cli/arena_cells.h"
#include "longbow/cli/arena_record.h"
#include "longbow/cli/command_line.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/threads.h"
#include "longbow/core/interruption.h"
#include "longbow/core/lock.h"
#include "longbow/core/version.h"
#include "longbow/core/work.h"
#include "longbow/report/table/number.h"
#include "longbow/report/write/report.h"
#include "longbow/tasks/task.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

using arena::ArenaCell;
using arena::ArenaConfig;

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

// The cell of each task that the others are made as large as, whether it was chosen or not.
std::vector<ArenaCell> models_to_match(const ArenaConfig& config, const ArenaCommand& command) {
  if (config.match_parameters.empty()) return {};
  return arena::plan(config,
                     {.mechanisms = {config.match_parameters}, .tasks = command.tasks, .seeds = 1});
}

// Reads the data of each task once: its baselines, and whether it suits the model of every cell.
void look_at_data(std::vector<ArenaCell>& cells, const std::vector<ArenaCell>& models,
                  References& references) {
  for (auto first = cells.begin(); first != cells.end();) {
    const auto last = std::find_if(first, cells.end(),
                                   [&](const auto& cell) { return cell.task != first->task; });
    std::optional<Splits> splits;
    for (auto cell = first; cell != last; ++cell) {
      if (!cell->refusal.empty()) continue;
      const auto& run = cell->config;
      if (!splits) {
        splits = load_data(run.data);
        references.add(cell->task, baselines(run.data, run.objective, *splits));
      }
      find_objective(run.objective).check_data(*splits, run.model, run.train.sampler.bucket);
    }
    if (splits && !models.empty())
      arena::match_parameters({first, last},
                              *std::ranges::find(models, first->task, &ArenaCell::task), *splits);
    first = last;
  }
}

void tell(const std::string& label, const Result& result) {
  info(result.status == "ok"
           ? fmt::format("{}: {}, {}{}", label,
                         reporting::measure_of(result.metric).sentence(result.score.value_or(0)),
                         result.shared ? "" : human_count(result.tokens_per_second) + " tokens/s, ",
                         human_seconds(result.seconds))
           : fmt::format("{}: {} ({})", label, result.status, result.reason));
}

// What is known of all cells, written after each of them.
class Record {
 public:
  Record(const std::vector<ArenaCell>& cells, References references, Node context, std::string out)
      : cells_(cells),
        references_(std::move(references)),
        context_(std::move(context)),
        out_(std::move(out)) {
    for (const auto& cell : cells)
      results_.push_back(
          without_score(cell, cell.refusal.empty() ? "pending" : "n.a.", cell.refusal));
  }
  void set(size_t cell, const Result& result) {
    results_[cell] = result;
    if (result.status == "ok") references_.choose(cells_[cell].task, result.metric);
    auto rows = Node::list();
    for (size_t i = 0; i < cells_.size(); ++i)
      rows.items.push_back(json_of(results_[i], cells_[i]));
    references_.add_to(rows.items);
    write_record(rows, context_, out_);
  }
  bool all_fine() const {
    return std::ranges::all_of(results_, [](const auto& result) {
      return result.status == "ok" || result.status == "n.a.";
    });
  }

 private:
  const std::vector<ArenaCell>& cells_;
  References references_;
  Node context_;
  std::string out_;
  std::vector<Result> results_;
};

int compete(const ArenaConfig& config, std::vector<ArenaCell> cells, const std::string& out,
            const ArenaCommand& command) {
  const FolderLock lock(out);
  References references(published_rows(config));
  look_at_data(cells, models_to_match(config, command), references);
  Record record(cells, std::move(references), context_of(config, command), out);
  const CellOptions options = {out, command.device, command.progress, command.jobs};
  train_cells(cells, options, [&](size_t cell, const Result& result) {
    tell(label_of(cells, cell), result);
    record.set(cell, result);
  });
  const auto tell_speed = [&](size_t cell, const Result& result) {
    info(fmt::format("{}: {} tokens/s alone", label_of(cells, cell),
                     human_count(result.tokens_per_second)));
    record.set(cell, result);
  };
  const bool timed = command.untimed || measure_alone(cells, options, tell_speed);
  return record.all_fine() && timed ? 0 : 1;
}

// Seconds of "90s", "45m" or "1.5h"; 0 of nothing.
double seconds_of(const std::string& text) {
  if (text.empty()) return 0;
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || !std::isfinite(value))
    throw UserError(Place{"--time-budget", 0}, fmt::format("{} is no time", quote(text)),
                    "write 90s, 45m or 1.5h");
  return value * scale;
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
  add("--threads", given_threads() > 0 ? std::to_string(given_threads()) : "");
  add("--jobs", command.jobs > 1 ? std::to_string(command.jobs) : "");
  if (command.untimed) words.push_back("--untimed");
  add("--time-budget", command.time_budget);
  return "everything is saved, continue with: " + command_line(words);
}

}  // namespace

int run(const ArenaCommand& command) {
  const InterruptionGuard guard;
  show_work(parse_progress(command.progress));
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  const auto config = read<ArenaConfig>(tree);
  const auto cells = arena::plan(config, {.mechanisms = command.mechanisms,
                                          .tasks = command.tasks,
                                          .seeds = command.seeds,
                                          .seconds = seconds_of(command.time_budget),
                                          .jobs = command.jobs});
  check_published(published_rows(config));
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

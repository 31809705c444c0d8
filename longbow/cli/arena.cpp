// A matrix of mechanisms x tasks x seeds from one YAML file. Every cell is a run folder of its own,
// so an arena that stopped goes on where it was, and a cell that fails says why and stops nobody
// else.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "longbow/attention/mechanism.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/placement.h"
#include "longbow/core/file.h"
#include "longbow/core/version.h"
#include "longbow/report/number.h"
#include "longbow/report/report.h"
#include "longbow/train/interruption.h"
#include "longbow/train/trainer.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

struct ArenaConfig {
  std::string name = "arena";
  Node common = Node::map(), tasks = Node::map();
  std::vector<Node> mechanisms;
  std::vector<int64_t> seeds = {1};
};
template <class V>
void fields(V& v, ArenaConfig& c) {
  v("name", c.name, "of the arena, for the report");
  v("common", c.common, "a run config that all tasks start from");
  v("tasks", c.tasks, "task name: run config");
  v("mechanisms", c.mechanisms, "names, or maps {name: linformer, rank: 32, label: linformer 32}");
  v("seeds", c.seeds, "one run of every cell for each");
}

struct Cell {
  std::string task, label;
  int64_t seed = 1;
  std::string folder = {};  // relative to the arena's
  std::vector<std::string> sites = {};
  RunConfig config = {};
  std::string refusal = {};  // why the mechanism cannot do the task, or empty
};

std::string label_of(const Node& mechanism) {
  if (const auto* label = mechanism.find("label")) return as_string(*label, "label");
  return mechanism_of(mechanism).name;
}

Node attention_of(const Node& mechanism) {
  Node options = mechanism;
  std::erase_if(options.entries, [](const auto& entry) { return entry.first == "label"; });
  return options;
}

void check_chosen(const std::vector<std::string>& chosen, const std::vector<std::string>& known,
                  const char* flag) {
  for (const auto& name : chosen)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(Place{flag, 0}, "'" + name + "' is not in the arena", suggest(name, known));
}

bool wanted(const std::vector<std::string>& chosen, const std::string& name) {
  return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

std::string file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '_');
  return text;
}

std::string objective_of(const Node& tree) {
  if (const auto* objective = tree.find("objective"); objective && !objective->text.empty())
    return objective->text;
  const auto& task = *tree.find("task");
  return find_data_source(as_string(task, "task"), task.place, "task").objective;
}

RunConfig config_with(Node tree, const Node& attention, std::vector<std::string>& sites) {
  auto& model = tree["model"];
  if (!model.is_map()) model = Node::map();
  auto placement = placed(attention, model, objective_of(tree));
  model = std::move(placement.model);
  sites = std::move(placement.sites);
  return read_run_config(tree);
}

// "fnet is not causal" of "arena.yaml:10: fnet is not causal; mechanisms that are: …".
std::string bare(const std::string& error, const Place& place) {
  const auto start = place.str() + ": ";
  const auto text = error.starts_with(start) ? error.substr(start.size()) : error;
  return text.substr(0, text.find("; "));
}

// A mechanism that lacks what a task needs has a cell that says so. Everything else that is wrong
// is wrong with softmax too, or with the options of the mechanism, and is the user's to mend.
void configure(Cell& cell, const Node& tree, const Node& attention) {
  try {
    cell.config = config_with(tree, attention, cell.sites);
  } catch (const UserError& error) {
    mechanism_of(attention).promises(options_of(attention));
    std::vector<std::string> unused;
    config_with(tree, Node::string("softmax"), unused);
    cell.refusal = bare(error.what(), attention.place);
  }
}

// All cells, checked before the first one runs.
std::vector<Cell> plan(const ArenaConfig& arena, const ArenaCommand& command) {
  std::vector<std::string> labels;
  for (const auto& mechanism : arena.mechanisms) labels.push_back(label_of(mechanism));
  check_chosen(command.mechanisms, labels, "--mechanisms");
  check_chosen(command.tasks, arena.tasks.keys(), "--tasks");
  std::vector<int64_t> seeds = arena.seeds;
  if (command.seeds > 0) {
    seeds.clear();
    for (int64_t seed = 1; seed <= command.seeds; ++seed) seeds.push_back(seed);
  }
  std::vector<Cell> cells;
  for (const auto& [task, own] : arena.tasks.entries)
    for (size_t m = 0; m < labels.size(); ++m)
      for (const auto seed : seeds) {
        if (!wanted(command.tasks, task) || !wanted(command.mechanisms, labels[m])) continue;
        auto tree = merged(arena.common, own);
        if (!tree.find("task")) {
          tree["task"] = Node::string(task);
          tree["task"].place = own.place;
        }
        tree["seed"] = Node::integer(seed);
        cells.push_back({.task = task, .label = labels[m], .seed = seed});
        cells.back().folder =
            fmt::format("cells/{}/{}/seed-{}", file_name(task), file_name(labels[m]), seed);
        configure(cells.back(), tree, attention_of(arena.mechanisms[m]));
      }
  return cells;
}

Result failed(const Cell& cell, const std::string& status, std::string reason) {
  reason = reason.substr(0, reason.find('\n'));
  return {.task = cell.task,
          .mechanism = cell.label,
          .seed = cell.seed,
          .metric = "",
          .status = status,
          .reason = reason};
}

// A finished cell of the same config is read, a broken-off one resumed, one of another config
// replaced.
Result run_cell(const Cell& cell, const std::string& out, const ArenaCommand& command,
                const std::string& label) {
  if (!cell.refusal.empty()) return failed(cell, "n.a.", cell.refusal);
  const auto folder = fs::path(out) / cell.folder;
  const auto request = (folder / "request.yaml").string(),
             results = (folder / "results.json").string();
  const auto text = to_yaml(written(cell.config));
  if (fs::exists(request) && read_file(request) == text) {
    if (fs::exists(results)) return read<Result>(parse_json(read_file(results), results));
  } else {
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_file(request, text);
  }
  try {
    return train(cell.config, {.out = folder.string(),
                               .resume = true,
                               .device = parse_device(command.device),
                               .progress = parse_progress(command.progress),
                               .label = label});
  } catch (const Interrupted&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return failed(cell, "OOM", error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return failed(cell, "OOM", error.what());
  } catch (const c10::Error& error) {
    return failed(cell, "FAIL", error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(cell, "FAIL", error.what());
  }
}

Node sites_of(const Cell& cell) {
  Node sites = Node::list();
  for (const auto& site : cell.sites) sites.items.push_back(Node::string(site));
  return sites;
}

const char* format_of(const std::string& metric) {
  return reporting::measure_of(metric).percent ? "percent" : "number";
}

Node json_of(const Result& result, const Cell& cell) {
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

// The rows of each task, for the metric that its cells were scored by.
class Baselines {
 public:
  explicit Baselines(const std::vector<Cell>& cells) {
    for (const auto& [task, label, seed, folder, sites, config, refusal] : cells)
      if (refusal.empty() && (tasks_.empty() || tasks_.back().first != task))
        tasks_.emplace_back(task, baselines(config.data, config.objective, load_data(config.data)));
  }
  void choose(const std::string& task, const std::string& metric) {
    for (auto& [name, rows] : tasks_)
      if (name == task) std::erase_if(rows, [&](const auto& row) { return row.metric != metric; });
  }
  void add_to(std::vector<Node>& list) const {
    for (const auto& [task, rows] : tasks_)
      for (const auto& row : rows) list.push_back(json_of(row, task));
  }

 private:
  std::vector<std::pair<std::string, std::vector<Baseline>>> tasks_;
};

Node context_of(const ArenaConfig& arena, const ArenaCommand& command) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  return Node::map({{"name", Node::string(arena.name)},
                    {"command", Node::string("longbow arena " + command.config)},
                    {"version", Node::string(version())},
                    {"commit", Node::string(commit())},
                    {"compiler", Node::string(compiler())},
                    {"machine", Node::string(machine_of(parse_device(command.device)))},
                    {"date", Node::string(date)}});
}

void write_record(const Node& rows, const Node& context, const std::string& out) {
  const auto in = [&](const char* name) { return (fs::path(out) / name).string(); };
  write_file(in("results.json"), to_json(rows, 2) + "\n");
  write_file(in("context.json"), to_json(context, 2) + "\n");
  const auto record = load_record(out);
  write_file(in("table.md"), to_markdown(record));
  write_file(in("table.csv"), to_csv(record));
  write_file(in("report.html"), to_html(record));
}

}  // namespace

int run(const ArenaCommand& command) {
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  const auto arena = read<ArenaConfig>(tree);
  const auto cells = plan(arena, command);
  if (cells.empty())
    throw UserError(tree.place, "the arena has no cell", "give it tasks and mechanisms");
  const auto out = command.out.empty() ? "runs/" + arena.name : command.out;
  fs::create_directories(out);
  Baselines baselines(cells);
  std::vector<Node> rows;
  bool all_fine = true;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& cell = cells[i];
    const auto label = fmt::format("[{}/{}] {} on {}", i + 1, cells.size(), cell.label, cell.task);
    const auto result = run_cell(cell, out, command, label);
    info(result.status == "ok"
             ? fmt::format("{}: {}, {} tokens/s, {}", label,
                           reporting::measure_of(result.metric).sentence(result.score),
                           human_count(result.tokens_per_second), human_seconds(result.seconds))
             : fmt::format("{}: {} ({})", label, result.status, result.reason));
    all_fine = all_fine && (result.status == "ok" || !cell.refusal.empty());
    rows.push_back(json_of(result, cell));
    if (result.status == "ok") baselines.choose(cell.task, result.metric);
    auto all = Node::list();
    all.items = rows;
    baselines.add_to(all.items);
    write_record(all, context_of(arena, command), out);
  }
  fmt::print("{}\n{}\n", console_table(load_record(out)), (fs::path(out) / "report.html").string());
  return all_fine ? 0 : 1;
}

}  // namespace longbow::cli

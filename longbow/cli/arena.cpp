// A matrix of mechanisms x tasks x seeds from one YAML file. Every cell is a run folder of its own,
// so an arena that stopped goes on where it was, and a cell that fails says why and stops nobody
// else.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "longbow/cli/arena_plan.h"
#include "longbow/cli/device.h"
#include "longbow/core/file.h"
#include "longbow/core/version.h"
#include "longbow/report/number.h"
#include "longbow/report/report.h"
#include "longbow/train/interruption.h"
#include "longbow/train/trainer.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

Result failed(const ArenaCell& cell, const std::string& status, std::string reason) {
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
Result run_cell(const ArenaCell& cell, const std::string& out, const ArenaCommand& command,
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

// The rows of each task, for the metric that its cells were scored by.
class Baselines {
 public:
  explicit Baselines(const std::vector<ArenaCell>& cells) {
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

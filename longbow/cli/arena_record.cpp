#include "longbow/cli/arena_record.h"

#include <fmt/format.h>

#include <filesystem>

#include "longbow/core/file.h"
#include "longbow/core/run_folder.h"
#include "longbow/report/table/number.h"
#include "longbow/report/write/report.h"

namespace fs = std::filesystem;

namespace longbow::cli {
namespace {

Node sites_of(const arena::ArenaCell& cell) {
  Node sites = Node::list();
  for (const auto& site : cell.sites) sites.items.push_back(Node::string(site));
  return sites;
}

const char* format_of(const std::string& metric) {
  return reporting::measure_of(metric).percent ? "percent" : "number";
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

}  // namespace

Node json_of(const Result& result, const arena::ArenaCell& cell) {
  Node row = written(result);
  row["mechanism"] = Node::string(cell.label);
  row["task"] = Node::string(cell.task);
  row["format"] = Node::string(format_of(result.metric));
  row["sites"] = sites_of(cell);
  row["run"] = Node::string(cell.folder);
  if (result.shared) row["tokens_per_second"] = Node{};
  if (result.status == "ok") return row;
  for (const auto* key :
       {"metric", "larger_is_better", "format", "score", "valid_score", "parameters", "steps",
        "best_step", "tokens_per_second", "peak_bytes", "seconds"})
    row[key] = Node{};
  return row;
}

void check_published(const std::vector<arena::PublishedRow>& rows) {
  for (const auto& row : rows)
    if (reporting::measure_of(row.metric).percent && (row.score < 0 || row.score > 1))
      throw UserError(
          row.place,
          fmt::format("{} of {} is {}, outside 0..1", row.metric, quote(row.mechanism), row.score),
          "write it as a fraction");
}

void References::choose(const std::string& task, const std::string& metric) {
  chosen_.insert(task);
  for (auto& [name, rows] : tasks_)
    if (name == task) std::erase_if(rows, [&](const auto& row) { return row.metric != metric; });
  std::erase_if(published_,
                [&](const auto& row) { return row.task == task && row.metric != metric; });
}

void References::add_to(std::vector<Node>& list) const {
  for (const auto& row : published_)
    if (chosen_.contains(row.task)) list.push_back(json_of(row));
  for (const auto& [task, rows] : tasks_)
    for (const auto& row : rows) list.push_back(json_of(row, task));
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

}  // namespace longbow::cli

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>

#include "longbow/core/config.h"
#include "longbow/core/file.h"
#include "longbow/core/listing.h"
#include "longbow/core/run_folder.h"
#include "longbow/report/table/metrics.h"
#include "longbow/report/table/number.h"
#include "longbow/report/table/record.h"

namespace longbow {
namespace {

namespace fs = std::filesystem;

// Reads the keys of one object; whatever is wrong with it is said as "results.json: cells[3]: …".
struct Object {
  const Node& node;
  Place place;
  std::string name;

  std::string text(const std::string& key, const std::string& otherwise = "") const {
    auto value = node.find(key);
    return value && !value->is_null() ? as_string(*value, name + "." + key) : otherwise;
  }
  std::string required(const std::string& key) const {
    auto value = text(key);
    if (value.empty()) throw UserError(place, fmt::format("{} has no '{}'", name, key));
    return value;
  }
  int64_t integer(const std::string& key) const {
    auto value = node.find(key);
    return value && !value->is_null() ? as_integer(*value, name + "." + key) : 0;
  }
  std::optional<bool> boolean(const std::string& key) const {
    auto value = node.find(key);
    if (!value || value->is_null()) return {};
    return as_boolean(*value, name + "." + key);
  }
  std::optional<double> number(const std::string& key) const {
    auto value = node.find(key);
    if (!value || reporting::is_missing_number(*value)) return {};
    return as_number(*value, name + "." + key);
  }
};

const std::vector<Node>& items(const Node& list, const std::string& what, const Place& place) {
  if (!list.is_list()) throw UserError(place, fmt::format("'{}' is not a list", what));
  return list.items;
}

std::vector<Object> objects(const Node& list, const std::string& what, const Place& place) {
  std::vector<Object> result;
  for (auto& item : items(list, what, place)) {
    auto name = fmt::format("{}[{}]", what, result.size());
    if (!item.is_map()) throw UserError(place, name + " is not an object");
    result.push_back({item, place, name});
  }
  return result;
}

std::vector<std::string> read_sites(const Object& from) {
  std::vector<std::string> sites;
  if (auto list = from.node.find("sites"); list && !list->is_null())
    for (auto& site : items(*list, from.name + ".sites", from.place))
      sites.push_back(as_string(site, from.name + ".sites"));
  return sites;
}

std::optional<bool> read_percent(const Object& from) {
  auto format = from.text("format");
  if (format.empty()) return {};
  if (format != "percent" && format != "number")
    throw UserError(from.place, fmt::format("{}: unknown format {}", from.name, quote(format)),
                    "one of: percent, number");
  return format == "percent";
}

// A score that was written although it is not finite; newer files hold null and say why.
void refuse_infinite_score(const Object& from, Cell& cell) {
  auto score = from.node.find("score");
  if (!score || score->is_null() || cell.score || cell.status != "ok") return;
  cell.status = "FAIL";
  if (cell.reason.empty()) cell.reason = fmt::format("{} is {}", cell.metric, score->text);
}

Cell read_cell(const Object& from) {
  Cell cell{.mechanism = from.required("mechanism"),
            .task = from.required("task"),
            .seed = from.integer("seed"),
            .metric = from.text("metric", "score"),
            .larger_is_better = from.boolean("larger_is_better"),
            .percent = read_percent(from),
            .score = from.number("score"),
            .parameters = from.number("parameters"),
            .tokens_per_second = from.number("tokens_per_second"),
            .peak_bytes = from.number("peak_bytes"),
            .steps = from.number("steps"),
            .seconds = from.number("seconds"),
            .status = from.text("status", "ok"),
            .reason = from.text("reason"),
            .split = from.text("split"),
            .chosen_by = from.text("chosen_by"),
            .sites = read_sites(from),
            .run = from.text("run")};
  refuse_infinite_score(from, cell);
  if (cell.score && reporting::measure_of(cell).percent && (*cell.score < 0 || *cell.score > 1))
    throw UserError(
        from.place,
        fmt::format("{}: {} is {}, outside 0..1", from.name, shortened(cell.metric), *cell.score),
        "write it as a fraction");
  return cell;
}

double unit_in_seconds(const Object& from) {
  static const std::map<std::string, double> units = {
      {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  auto unit = from.text("time_unit", "ns");
  auto found = units.find(unit);
  if (found == units.end())
    throw UserError(from.place, fmt::format("{}: unknown time unit {}", from.name, quote(unit)),
                    "one of: s, ms, us, ns");
  return found->second;
}

Benchmark read_benchmark(const Object& from) {
  auto unit = unit_in_seconds(from);
  auto seconds = [&](const char* key) {
    auto value = from.number(key);
    if (value) *value *= unit;
    return value;
  };
  auto length = from.number("length");
  if (!length) throw UserError(from.place, from.name + " has no 'length'");
  return {.mechanism = from.required("mechanism"),
          .mode = from.required("mode"),
          .length = *length,
          .seconds = seconds("real_time"),
          .p20 = seconds("p20"),
          .p80 = seconds("p80"),
          .peak_bytes = from.number("peak_bytes"),
          .error = from.number("error"),
          .status = from.text("status", "ok"),
          .reason = from.text("reason")};
}

Growth read_growth(const Object& from) {
  return {.mechanism = from.required("mechanism"),
          .mode = from.required("mode"),
          .time_exponent = from.number("time_exponent"),
          .memory_exponent = from.number("memory_exponent"),
          .crossover_length = from.number("crossover_length"),
          .cpu_exponent = from.number("cpu_exponent"),
          .promised_time = from.number("promised_time_exponent"),
          .promised_memory = from.number("promised_memory_exponent")};
}

// Name and date stand on top of the page and not among the rest.
void read_context(const Node& context, Record& record) {
  for (auto& [key, value] : context.entries) {
    if (value.is_null()) continue;
    auto text = value.is_scalar() ? value.text : to_json(value);
    if (key == "name")
      record.title = text;
    else if (key == "date")
      record.date = text;
    else
      record.context.emplace_back(key, text);
  }
}

// What a record is called that gives itself no name: its file or, where that is always called the
// same, the folder it is in.
std::string name_of(const fs::path& file) {
  if (file.stem() != "results") return file.stem().string();
  return fs::weakly_canonical(fs::absolute(file).parent_path()).filename().string();
}

std::string day_of(const fs::path& file) {
  std::error_code error;
  auto written = fs::last_write_time(file, error);
  if (error) return "";
  auto time = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(
          std::chrono::file_clock::to_sys(written)));
  std::tm day{};
  gmtime_r(&time, &day);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return text.data();
}

void add_curves(const fs::path& file, const Curve& origin, Record& record) {
  if (!fs::exists(file))
    return record.notes.push_back(file.string() + ": missing, so there are no curves of it");
  auto curves = reporting::read_curves(file.string(), origin, record.notes);
  record.curves.insert(record.curves.end(), curves.begin(), curves.end());
}

void refuse_twins(const std::vector<Cell>& cells, const Place& place) {
  std::set<std::tuple<std::string, std::string, int64_t>> seen;
  for (auto& cell : cells)
    if (!seen.emplace(cell.mechanism, cell.task, cell.seed).second)
      throw UserError(place,
                      fmt::format("{} on {} with seed {} appears twice", shortened(cell.mechanism),
                                  shortened(cell.task), cell.seed));
}

void read_cells(const Node& list, const Place& place, Record& record) {
  record.kind = "arena";
  for (auto& object : objects(list, "cells", place)) record.cells.push_back(read_cell(object));
  refuse_twins(record.cells, place);
  for (auto& cell : record.cells) {
    if (cell.run.empty()) continue;
    auto file = RunFolder(fs::path(place.file).parent_path() / cell.run).metrics();
    if (cell.status != "ok" && !fs::exists(file)) continue;
    add_curves(file, {.label = cell.mechanism, .task = cell.task, .seed = cell.seed}, record);
  }
}

void read_bench(const Node& root, const Place& place, Record& record) {
  record.kind = "bench";
  for (auto& object : objects(*root.find("benchmarks"), "benchmarks", place))
    record.benchmarks.push_back(read_benchmark(object));
  if (auto growth = root.find("growth"))
    for (auto& object : objects(*growth, "growth", place))
      record.growth.push_back(read_growth(object));
}

std::string name_at(const Node& root, std::initializer_list<const char*> path,
                    const std::string& otherwise) {
  auto node = &root;
  for (auto key : path)
    if (node) node = node->find(key);
  if (node && node->is_map()) node = node->find("name");
  return node && node->is_scalar() ? node->text : otherwise;
}

// One run: what results.json leaves unsaid about mechanism and task is in the config.
void read_run(Node result, const RunFolder& run, const Place& place, Record& record) {
  record.kind = "run";
  auto config = record.config.empty() ? Node{} : parse_yaml(record.config, run.config());
  Curve origin{
      .label = name_at(result, {"mechanism"}, name_at(config, {"model", "attention"}, "model")),
      .task = name_at(result, {"task"}, name_at(config, {"task"}, "run"))};
  if (result.is_map()) {
    result["mechanism"] = Node::string(origin.label);
    result["task"] = Node::string(origin.task);
    record.cells.push_back(read_cell({result, place, "the run"}));
    origin.seed = record.cells.back().seed;
  }
  auto metrics = run.metrics(), before = run.pretraining().metrics();
  if (fs::exists(metrics)) add_curves(metrics, origin, record);
  origin.task += ": pretraining";
  if (fs::exists(before)) add_curves(before, origin, record);
}

void read_document(const Node& root, const Place& place, Record& record) {
  if (root.is_list()) return read_cells(root, place, record);
  if (!root.is_map())
    throw UserError(place, "holds neither cells nor benchmarks nor the result of a run");
  if (auto context = root.find("context")) read_context(*context, record);
  if (root.find("benchmarks")) return read_bench(root, place, record);
  if (auto cells = root.find("cells")) return read_cells(*cells, place, record);
  read_run(root, RunFolder(fs::path(place.file).parent_path()), place, record);
}

}  // namespace

Record load_record(const std::string& path) {
  auto is_folder = fs::is_directory(path);
  auto folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const RunFolder run(folder);
  const auto file = is_folder ? run.results() : path;
  Record record;
  record.title = name_of(file);
  record.date = day_of(file);
  if (run.is_run()) record.config = read_file(run.config());
  if (is_folder && !fs::exists(file)) {
    if (!fs::exists(run.metrics()))
      throw UserError({path, 0}, "holds neither results.json nor metrics.jsonl",
                      "give the folder of an arena or of a run, or the JSON file of a bench");
    record.date = day_of(run.metrics());
    record.notes.push_back(file + ": missing, so this run has no score yet");
    read_run({}, run, {file, 0}, record);
    return record;
  }
  // results.json of an arena is an array of cells; where and how they were made stands beside it.
  if (const auto beside = (folder / "context.json").string(); is_folder && fs::exists(beside))
    read_context(parse_json(read_file(beside), beside), record);
  read_document(parse_json(read_file(file), file), {file, 0}, record);
  return record;
}

Record parse_record(const std::string& text, const std::string& path) {
  Record record;
  read_document(parse_json(text, path), {path, 0}, record);
  return record;
}

}  // namespace longbow

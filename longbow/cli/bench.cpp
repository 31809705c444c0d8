// Time and memory of one layer, or of a whole model, over sequence length, beside softmax in the
// same run or beside what the mechanism promises.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longbow/arena/gate.h"
#include "longbow/arena/growth.h"
#include "longbow/arena/plan.h"
#include "longbow/attention/mechanism.h"
#include "longbow/cli/bench_peaks.h"
#include "longbow/cli/bench_sample.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/failure.h"
#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/core/version.h"
#include "longbow/report/table/grid.h"

namespace longbow::cli {
namespace {

Promises promises_of(const BenchSubject& subject) {
  return mechanism_of(subject.options).promises(options_of(subject.options));
}

// Exponents, under the mask that is timed.
struct Promised {
  double time, memory;
};
Promised promised_growth(const BenchSubject& subject, const BenchCommand& command) {
  const auto p = promises_of(subject);
  return is_causal(subject, command) ? Promised{p.causal_time, p.causal_memory}
                                     : Promised{p.time, p.memory};
}

// Whether a mechanism that nobody named is worth timing: with --growth one that promises to grow
// more slowly than softmax, with --causal one that takes the mask.
bool is_wanted(const BenchSubject& subject, const BenchCommand& command) {
  if (command.growth && promised_growth(subject, command).time >= 2) return false;
  return !command.causal || promises_of(subject).future != Future::refused;
}

std::vector<BenchSubject> subjects(const BenchCommand& command) {
  std::vector<BenchSubject> all;
  const auto add = [&](const std::string& label, const std::string& name,
                       const std::string& options) {
    auto node = options.empty() ? Node::map() : parse_yaml(options, label);
    node["name"] = Node::string(name);
    node.place = Place{"--mechanisms", 0};
    all.push_back({label, node});
  };
  if (!command.growth) add("softmax", "softmax", "");
  if (!command.growth && command.config.empty()) {
    if (command.device == "cpu") add("softmax_libtorch", "softmax", "{form: libtorch}");
    add("softmax_naive", "softmax", "{form: naive}");
  }
  for (const auto& text : command.configured) {
    const auto mechanism = parse_yaml(text, "--mechanism");
    all.push_back({arena::label_of(mechanism), arena::attention_of(mechanism)});
    (void)promises_of(all.back());  // refuses what is no mechanism, or no option of one
  }
  const auto& chosen = command.mechanisms;
  if (chosen.empty() && !command.configured.empty()) return all;
  for (const auto& name : chosen) find_mechanism(name, Place{"--mechanisms", 0});
  for (const auto& mechanism : mechanisms()) {
    if (mechanism.name == "softmax" && !command.growth) continue;
    const bool asked = std::find(chosen.begin(), chosen.end(), mechanism.name) != chosen.end();
    if (!asked && !chosen.empty()) continue;
    add(mechanism.name, mechanism.name, "");
    if (!asked && !is_wanted(all.back(), command)) all.pop_back();
  }
  return all;
}

// Results go by label.
void check_labels(const std::vector<BenchSubject>& all) {
  std::vector<std::string> labels;
  std::vector<Place> places;
  for (const auto& subject : all) {
    labels.push_back(subject.label);
    places.push_back(subject.options.place);
  }
  arena::check_labels(labels, places);
}

void check_modes(const BenchCommand& command) {
  if (!command.config.empty()) {
    const auto config = bench_model({"softmax", Node::string("softmax")}, command);
    for (const auto& mode : command.modes) {
      if (mode != kModelMode && mode != kWritingMode)
        throw UserError(Place{"--modes", 0}, "a model has no mode '" + mode + "'",
                        "one of: training, decode");
      if (config.objective != (mode == kModelMode ? "classification" : "causal_lm"))
        throw UserError(Place{command.config, 0}, "the objective is " + config.objective,
                        "on random texts, training is timed of a classifier and decode of a "
                        "causal_lm");
    }
    return;
  }
  for (const auto& mode : command.modes)
    if (mode != "forward" && mode != "training" && mode != "decode")
      throw UserError(Place{"--modes", 0}, "unknown mode '" + mode + "'",
                      suggest(mode, {"forward", "training", "decode"}));
  if (command.width % command.heads != 0)
    throw UserError(Place{"--heads", 0}, "width " + std::to_string(command.width) +
                                             " is not a multiple of " +
                                             std::to_string(command.heads) + " heads");
}

Node json_of(const BenchSample& s) {
  const bool fine = s.status == "ok";
  const auto number = [&](double value) { return fine ? Node::number(value) : Node{}; };
  return Node::map({{"name", Node::string(fmt::format("{}/{}/{}", s.label, s.mode, s.length))},
                    {"mechanism", Node::string(s.label)},
                    {"length", Node::integer(s.length)},
                    {"mode", Node::string(s.mode)},
                    {"real_time", number(1e3 * s.median)},
                    {"time_unit", Node::string("ms")},
                    {"p20", number(1e3 * s.p20)},
                    {"p80", number(1e3 * s.p80)},
                    {"cpu_time", number(1e3 * s.processor)},
                    {"tokens_per_second", number(static_cast<double>(s.tokens) / s.median)},
                    {"peak_bytes", number(s.peak_bytes)},
                    {"launches", s.work ? Node::integer(s.work->launches) : Node{}},
                    {"operations", s.work ? Node::number(s.work->operations) : Node{}},
                    {"moved_bytes", s.work ? Node::number(s.work->moved_bytes) : Node{}},
                    {"error", s.error ? number(*s.error) : Node{}},
                    {"status", Node::string(s.status)},
                    {"reason", Node::string(s.reason)}});
}

// Growth exponents, what is promised of a training step, and the length from which a mechanism is
// faster than fused softmax.
Node growth_of(const std::vector<BenchSample>& samples, const BenchSubject& subject,
               const BenchCommand& command, const std::string& mode) {
  arena::Curve time, processor, memory, baseline;
  for (const auto& s : samples) {
    if (s.mode != mode || s.status != "ok") continue;
    const auto length = static_cast<double>(s.length);
    if (s.label == "softmax") baseline.emplace_back(length, s.median);
    if (s.label != subject.label) continue;
    time.emplace_back(length, s.median);
    processor.emplace_back(length, s.processor);
    memory.emplace_back(length, s.peak_bytes);
  }
  const auto node = [](std::optional<double> value) {
    return value ? Node::number(*value) : Node{};
  };
  const auto promises = promised_growth(subject, command);
  const auto promised = [&](double value) {
    return mode == "training" ? Node::number(value) : Node{};
  };
  const bool baselined = subject.label != "softmax";
  return Node::map(
      {{"mechanism", Node::string(subject.label)},
       {"mode", Node::string(mode)},
       {"time_exponent", node(arena::exponent(time))},
       {"cpu_exponent", node(arena::exponent(processor))},
       {"promised_time_exponent", promised(promises.time)},
       {"memory_exponent", node(arena::exponent(memory))},
       {"promised_memory_exponent", promised(promises.memory)},
       {"crossover_length", baselined ? node(arena::crossover(time, baseline)) : Node{}}});
}

std::string shown(const Node* value, const char* format) {
  return !value || value->is_null() ? "–"
                                    : fmt::format(fmt::runtime(format), as_number(*value, "value"));
}

struct Column {
  std::string title;
  const char *key, *format;
};

// A row for each mechanism: what `cell` says of each length, then what was fitted.
void print_table(const std::vector<BenchSample>& samples, const Node& growth,
                 const std::string& mode, const std::string& title,
                 const std::function<std::string(const BenchSample&)>& cell,
                 const std::vector<Column>& fitted) {
  reporting::Grid grid = {.columns = {"mechanism"}};
  for (const auto& row : growth.items) {
    if (row.find("mode")->text != mode) continue;
    const auto& label = row.find("mechanism")->text;
    const bool first = grid.rows.empty();
    auto& cells = grid.rows.emplace_back();
    cells.push_back({label});
    for (const auto& s : samples) {
      if (s.mode != mode || s.label != label) continue;
      if (first) grid.columns.push_back(std::to_string(s.length));
      cells.push_back({s.status == "ok" ? cell(s) : s.status});
    }
    for (const auto& column : fitted) cells.push_back({shown(row.find(column.key), column.format)});
  }
  for (const auto& column : fitted) grid.columns.push_back(column.title);
  for (auto& row : grid.rows) row.resize(grid.columns.size());
  fmt::print("\n{}: {}\n{}", mode, title, reporting::console_grid(grid));
}

void print_times(const std::vector<BenchSample>& samples, const Node& growth,
                 const std::string& mode) {
  const bool writes = mode == "decode";
  const auto cell = [=](const BenchSample& s) {
    const auto rate =
        writes ? fmt::format("{:.4g}/s, ", static_cast<double>(s.tokens) / s.median) : "";
    return fmt::format("{:.3g} ({}{})", 1e3 * s.median, rate, human_bytes(s.peak_bytes));
  };
  print_table(
      samples, growth, mode,
      writes ? "median ms (tokens/s of all sequences, peak memory)" : "median ms (peak memory)",
      cell,
      {{"time N^", "time_exponent", "{:.2f}"},
       {"mem N^", "memory_exponent", "{:.2f}"},
       {"crossover", "crossover_length", "{:.0f}"}});
}

// How much of the machine the longest measured length keeps busy.
void print_rates(const std::vector<BenchSample>& samples, const std::string& mode,
                 const Peaks& peaks) {
  const int64_t length = std::ranges::max(samples, {}, &BenchSample::length).length;
  reporting::Grid grid = {
      .columns = {"mechanism", "launches", "TFLOP/s", "of the peak", "GB/s", "of the peak"}};
  for (const auto& s : samples) {
    if (s.mode != mode || s.length != length || s.status != "ok" || !s.work) continue;
    const double operations = s.work->operations / s.median, bytes = s.work->moved_bytes / s.median;
    grid.rows.push_back({{s.label},
                         {std::to_string(s.work->launches)},
                         {fmt::format("{:.3g}", 1e-12 * operations)},
                         {fmt::format("{:.0f} %", 100 * operations / peaks.operations)},
                         {fmt::format("{:.3g}", 1e-9 * bytes)},
                         {fmt::format("{:.0f} %", 100 * bytes / peaks.bytes)}});
  }
  if (grid.rows.empty()) return;
  fmt::print(
      "\n{} over {} tokens: operators started, and rates beside this machine's peaks of {:.3g} "
      "TFLOP/s and {:.4g} GB/s\n{}",
      mode, length, 1e-12 * peaks.operations, 1e-9 * peaks.bytes, reporting::console_grid(grid));
}

// "12.3 (1.52x, 1.7 GiB)": steps or tokens a second, and how many times as fast as softmax.
void print_model(const std::vector<BenchSample>& samples, const Node& growth,
                 const std::string& mode) {
  const bool writes = mode == kWritingMode;
  const auto cell = [&](const BenchSample& s) {
    const auto softmax = std::ranges::find_if(samples, [&](const BenchSample& other) {
      return other.label == "softmax" && other.mode == s.mode && other.length == s.length &&
             other.status == "ok";
    });
    const auto ratio =
        softmax == samples.end() ? "" : fmt::format("{:.2f}x, ", softmax->median / s.median);
    const double each = writes ? static_cast<double>(s.tokens) : 1;
    return fmt::format("{:.3g} ({}{})", each / s.median, ratio, human_bytes(s.peak_bytes));
  };
  print_table(samples, growth, mode,
              fmt::format("{} per second (beside softmax, peak memory)",
                          writes ? "tokens written" : "training steps"),
              cell,
              {{"time N^", "time_exponent", "{:.2f}"},
               {"mem N^", "memory_exponent", "{:.2f}"},
               {"crossover", "crossover_length", "{:.0f}"}});
}

void print_growth(const std::vector<BenchSample>& samples, const Node& growth,
                  const std::string& mode) {
  const auto cell = [](const BenchSample& s) { return fmt::format("{:.3g}", 1e3 * s.processor); };
  print_table(samples, growth, mode, "least processor time in ms", cell,
              {{"time N^", "cpu_exponent", "{:.2f}"},
               {"promised", "promised_time_exponent", "{:.2g}"},
               {"mem N^", "memory_exponent", "{:.2f}"},
               {"promised", "promised_memory_exponent", "{:.2g}"}});
}

// What the flags leave open. Lengths rise, as curves over them need it, and nothing is there twice.
BenchCommand completed(BenchCommand command) {
  if (command.lengths.empty())
    command.lengths = command.growth ? std::vector<int64_t>{2048, 4096, 8192, 16384}
                                     : std::vector<int64_t>{256, 512, 1024, 2048, 4096};
  if (!command.config.empty()) {
    std::vector<std::string> modes;
    for (const auto& mode : command.modes)
      modes.push_back(mode == "training" ? kModelMode : mode == "decode" ? kWritingMode : mode);
    command.modes = modes.empty() ? std::vector<std::string>{kModelMode} : modes;
  }
  if (command.modes.empty())
    command.modes = command.growth ? std::vector<std::string>{"training"}
                                   : std::vector<std::string>{"forward", "training"};
  auto& lengths = command.lengths;
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<std::string> modes;
  for (const auto& mode : command.modes)
    if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
  command.modes = modes;
  return command;
}

Node context_of(const BenchCommand& command) {
  Node context = Node::map({{"version", Node::string(version())},
                            {"commit", Node::string(commit())},
                            {"compiler", Node::string(compiler())},
                            {"machine", Node::string(machine_of(parse_device(command.device)))},
                            {"dtype", Node::string(command.dtype)},
                            {"batch", Node::integer(command.batch)},
                            {"tokens", Node::integer(command.tokens)},
                            {"causal", Node::boolean(command.causal)},
                            {"graphs", Node::boolean(command.graphs)},
                            {"width", Node::integer(command.width)},
                            {"heads", Node::integer(command.heads)},
                            {"repetitions", Node::integer(command.repetitions)}});
  if (!command.config.empty()) context["config"] = Node::string(command.config);
  return context;
}

// What has been measured so far.
struct BenchRecord {
  Node context;
  std::vector<BenchSample> samples = {};
  Node growth = Node::list();
};

void save(const BenchRecord& record, const std::string& file) {
  if (file.empty()) return;
  Node benchmarks = Node::list();
  for (const auto& s : record.samples) benchmarks.items.push_back(json_of(s));
  const auto root = Node::map(
      {{"context", record.context}, {"benchmarks", benchmarks}, {"growth", record.growth}});
  write_file(file, to_json(root, 2) + "\n");
}

// Why a mechanism is not timed, or "".
std::string failure_before(const BenchSubject& subject, const BenchCommand& command) {
  try {
    return arena::broken_promise(subject.options,
                                 {.heads = command.heads, .lengths = command.lengths});
  } catch (...) {
    return failure_of(std::current_exception()).text;
  }
}

void measure(const BenchSubject& subject, const BenchCommand& command, const std::string& mode,
             BenchRecord& record) {
  const auto failure = failure_before(subject, command);
  for (const auto length : command.lengths) {
    record.samples.push_back(failure.empty() ? bench_sample(subject, command, mode, length)
                                             : BenchSample{.label = subject.label,
                                                           .mode = mode,
                                                           .length = length,
                                                           .status = "FAIL",
                                                           .reason = failure});
    const auto& s = record.samples.back();
    info(fmt::format(
        "{} {} {}: {}", s.label, s.mode, s.length,
        s.status == "ok" ? fmt::format("{:.3g} ms", 1e3 * s.median) : s.status + " " + s.reason));
    if (!s.profile.empty())
      fmt::print("{} {} over {} tokens: {}", s.label, s.mode, s.length, s.profile);
  }
  record.growth.items.push_back(growth_of(record.samples, subject, command, mode));
}

}  // namespace

int run(const BenchCommand& given) {
  const auto command = completed(given);
  check_modes(command);
  const auto type = parse_bench_dtype(command.dtype);
  const auto all = subjects(command);
  check_labels(all);
  BenchRecord record = {.context = context_of(command)};
  save(record, command.json);  // before anything is measured that could not be kept
  std::optional<Peaks> peaks;
  if (command.config.empty()) {
    peaks = measured_peaks(parse_device(command.device), type);
    record.context["peak_operations"] = Node::number(peaks->operations);
    record.context["peak_bytes_per_second"] = Node::number(peaks->bytes);
  }
  for (const auto& mode : command.modes) {
    for (const auto& subject : all) {
      if ((mode == "decode" || mode == kWritingMode) && !promises_of(subject).decode) continue;
      measure(subject, command, mode, record);
      save(record, command.json);
    }
    (!command.config.empty() ? print_model
     : command.growth        ? print_growth
                             : print_times)(record.samples, record.growth, mode);
    if (peaks && !command.growth) print_rates(record.samples, mode, *peaks);
  }
  if (!command.json.empty()) fmt::print("\n{}\n", command.json);
  const bool failed =
      std::ranges::any_of(record.samples, [](const BenchSample& s) { return s.status == "FAIL"; });
  return failed ? 1 : 0;
}

}  // namespace longbow::cli

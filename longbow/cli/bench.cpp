// Time and memory of one layer, or of a whole model, over sequence length, always beside softmax in
// the same run.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "longbow/arena/gate.h"
#include "longbow/arena/growth.h"
#include "longbow/arena/placement.h"
#include "longbow/arena/plan.h"
#include "longbow/attention/mechanism.h"
#include "longbow/cli/commands.h"
#include "longbow/cli/device.h"
#include "longbow/cli/failure.h"
#include "longbow/core/file.h"
#include "longbow/core/log.h"
#include "longbow/core/version.h"
#include "longbow/report/table/grid.h"
#include "longbow/tensors/meter.h"
#include "longbow/train/run/throughput.h"
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace longbow::cli {
namespace {

struct Subject {
  std::string label;
  Node options;
};

struct Sample {
  std::string label, mode;
  int64_t length = 0;
  double median = 0, p20 = 0, p80 = 0, peak_bytes = 0;
  std::optional<double> error = {};  // nothing where float64 does not fit into memory
  std::string status = "ok", reason = "";
};

at::ScalarType parse_dtype(const std::string& text) {
  if (text == "float32") return at::kFloat;
  if (text == "bfloat16") return at::kBFloat16;
  if (text == "float64") return at::kDouble;
  throw UserError(Place{"--dtype", 0}, "unknown dtype '" + text + "'",
                  "one of: float32, bfloat16, float64");
}

void wait_for(at::Device device) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#else
  (void)device;
#endif
}

int64_t sequences(const BenchCommand& command, int64_t length) {
  return command.tokens > 0 ? std::max<int64_t>(1, command.tokens / length) : command.batch;
}

// One layer at one length, with random input. Decoding is one token behind a prefix of that length.
class Layer {
 public:
  Layer(const Subject& subject, const BenchCommand& command, int64_t length)
      : device_(parse_device(command.device)), type_(parse_dtype(command.dtype)) {
    site_ = {.shape = {.width = command.width, .heads = command.heads, .max_length = length + 1},
             .init = "xavier",
             .seed = 1,
             .shared = std::make_shared<Shared>()};
    mixer_ = make_mixer(subject.options, site_);
    mixer_->to(device_, type_);
    site_.shared->to(device_, type_);
    x_ = Random::from_seed(2)
             .normal({sequences(command, length), length, command.width}, "input")
             .to(device_, type_);
    gradient_ = at::ones_like(x_);
  }

  void forward() {
    at::NoGradGuard no_grad;
    Context context;
    (*mixer_)(x_, context);
  }

  void training() {
    auto x = x_.detach().requires_grad_();
    Context context;
    (*mixer_)(x, context).backward(gradient_);
    mixer_->zero_grad();
  }

  void prefill() {
    at::NoGradGuard no_grad;
    Context context = {.mask = {.causal = true}};
    mixer_->start(state_, x_.size(0), x_.size(1) + 1, context);
    mixer_->extend(x_, state_, context);
  }

  void decode() {  // a copy of the state's handles, so that every repetition decodes the same token
    at::NoGradGuard no_grad;
    Context context = {.mask = {.causal = true}};
    State state = state_;
    mixer_->extend(x_.narrow(1, 0, 1), state, context);
  }

  // Root mean square error against the same weights in float64, relative to the output.
  std::optional<double> error(const Subject& subject) {
    try {
      return relative_error(subject);
    } catch (const c10::OutOfMemoryError&) {
      return {};
    }
  }

  at::Device device() const { return device_; }

 private:
  double relative_error(const Subject& subject) {
    at::NoGradGuard no_grad;
    auto exact = make_mixer(subject.options, site_);
    exact->to(device_, at::kDouble);
    for (const auto& entry : exact->named_parameters())
      Tensor(entry.value()).copy_(mixer_->named_parameters()[entry.key()]);
    site_.shared->to(device_, at::kDouble);
    Context theirs, ours;  // what one carries to a next layer is not for the other
    const auto want = (*exact)(x_.to(at::kDouble), theirs);
    site_.shared->to(device_, type_);
    const auto got = (*mixer_)(x_, ours).to(at::kDouble);
    return ((got - want).norm() / want.norm().clamp_min(1e-300)).item<double>();
  }

  at::Device device_;
  at::ScalarType type_;
  Site site_;
  Mixer mixer_;
  Tensor x_, gradient_;
  State state_;
};

double timed(const std::function<void()>& body, at::Device device) {
  wait_for(device);
  const auto start = std::chrono::steady_clock::now();
  body();
  wait_for(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr const char* kModel = "model";

// The config of --config with the mechanism in its model.
RunConfig model_with(const Subject& subject, const BenchCommand& command) {
  auto tree = load_config(command.config);
  for (const auto& assignment : command.set) assign(tree, assignment);
  const auto* model = tree.find("model");
  const auto* objective = tree.find("objective");
  tree["model"] = arena::placed(subject.options, model ? *model : Node::map(),
                                objective ? objective->text : "classification")
                      .model;
  return read_model_config(tree);
}

void set_times(Sample& result, const std::vector<double>& times) {
  result.median = arena::quantile(times, 0.5);
  result.p20 = arena::quantile(times, 0.2);
  result.p80 = arena::quantile(times, 0.8);
}

void time_model(Sample& result, const Subject& subject, const BenchCommand& command) {
  const auto cost = measured_step(model_with(subject, command), result.length, command.repetitions,
                                  parse_device(command.device));
  result.peak_bytes = cost.peak_bytes;
  set_times(result, cost.seconds);
}

Sample sample(const Subject& subject, const BenchCommand& command, const std::string& mode,
              int64_t length) {
  Sample result = {.label = subject.label, .mode = mode, .length = length};
  try {
    if (mode == kModel) {
      time_model(result, subject, command);
      return result;
    }
    Layer layer(subject, command, length);
    if (mode == "decode") layer.prefill();
    const std::function<void()> body = mode == "forward" ? [&] { layer.forward(); }
                                       : mode == "training"
                                           ? std::function<void()>([&] { layer.training(); })
                                           : [&] { layer.decode(); };
    body();
    result.peak_bytes = static_cast<double>(measure(body, layer.device()).peak_bytes);
    std::vector<double> times;
    for (int64_t i = 0; i < command.repetitions; ++i) times.push_back(timed(body, layer.device()));
    set_times(result, times);
    if (mode == "forward") result.error = layer.error(subject);
  } catch (...) {
    const auto failure = failure_of(std::current_exception());
    result.status = failure.out_of_memory ? "OOM" : "FAIL";
    result.reason = failure.text;
  }
  return result;
}

std::vector<Subject> subjects(const BenchCommand& command) {
  std::vector<Subject> all;
  const auto add = [&](const std::string& label, const std::string& name,
                       const std::string& options) {
    auto node = options.empty() ? Node::map() : parse_yaml(options, label);
    node["name"] = Node::string(name);
    all.push_back({label, node});
  };
  add("softmax", "softmax", "");
  if (command.config.empty()) add("softmax_naive", "softmax", "{form: naive}");
  for (const auto& text : command.configured) {
    const auto mechanism = parse_yaml(text, "--mechanism");
    all.push_back({arena::label_of(mechanism), arena::attention_of(mechanism)});
    (void)mechanism_of(all.back().options);  // refuses what is not one
  }
  const auto& chosen = command.mechanisms;
  if (chosen.empty() && !command.configured.empty()) return all;
  for (const auto& name : chosen) find_mechanism(name, Place{"--mechanisms", 0});
  for (const auto& mechanism : mechanisms())
    if (mechanism.name != "softmax" &&
        (chosen.empty() || std::find(chosen.begin(), chosen.end(), mechanism.name) != chosen.end()))
      add(mechanism.name, mechanism.name, "");
  return all;
}

void check_modes(const BenchCommand& command) {
  if (!command.config.empty()) {
    const auto config = model_with({"softmax", Node::string("softmax")}, command);
    if (config.objective != "classification")
      throw UserError(Place{command.config, 0}, "the objective is " + config.objective,
                      "a model is timed as a classifier of random texts");
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

Node json_of(const Sample& s) {
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
                    {"peak_bytes", number(s.peak_bytes)},
                    {"error", s.error ? number(*s.error) : Node{}},
                    {"status", Node::string(s.status)},
                    {"reason", Node::string(s.reason)}});
}

// Growth exponents, and the length from which a mechanism is faster than fused softmax.
Node growth_of(const std::vector<Sample>& samples, const std::string& label,
               const std::string& mode) {
  arena::Curve time, memory, baseline;
  for (const auto& s : samples) {
    if (s.mode != mode || s.status != "ok") continue;
    const auto length = static_cast<double>(s.length);
    if (s.label == "softmax") baseline.emplace_back(length, s.median);
    if (s.label != label) continue;
    time.emplace_back(length, s.median);
    memory.emplace_back(length, s.peak_bytes);
  }
  const auto node = [](std::optional<double> value) {
    return value ? Node::number(*value) : Node{};
  };
  return Node::map(
      {{"mechanism", Node::string(label)},
       {"mode", Node::string(mode)},
       {"time_exponent", node(arena::exponent(time))},
       {"memory_exponent", node(arena::exponent(memory))},
       {"crossover_length", label == "softmax" ? Node{} : node(arena::crossover(time, baseline))}});
}

std::string shown(const Node* value, const char* format) {
  return !value || value->is_null() ? "–"
                                    : fmt::format(fmt::runtime(format), as_number(*value, "value"));
}

// "4.21 (1.7 GiB)", in ms; of a model "12.3 (1.52x, 1.7 GiB)", in steps a second and beside
// softmax.
std::string shown(const Sample& s, const std::vector<Sample>& samples) {
  if (s.status != "ok") return s.status;
  if (s.mode != kModel)
    return fmt::format("{:.3g} ({})", 1e3 * s.median, human_bytes(s.peak_bytes));
  const auto softmax = std::ranges::find_if(samples, [&](const Sample& other) {
    return other.label == "softmax" && other.length == s.length && other.status == "ok";
  });
  const auto ratio =
      softmax == samples.end() ? "" : fmt::format("{:.2f}x, ", softmax->median / s.median);
  return fmt::format("{:.3g} ({}{})", 1 / s.median, ratio, human_bytes(s.peak_bytes));
}

void print_table(const std::vector<Sample>& samples, const Node& growth, const std::string& mode) {
  reporting::Grid grid = {.columns = {"mechanism"}};
  for (const auto& s : samples)
    if (s.mode == mode && s.label == "softmax") grid.columns.push_back(std::to_string(s.length));
  grid.columns.insert(grid.columns.end(), {"time N^", "mem N^", "crossover"});
  for (const auto& row : growth.items) {
    if (row.find("mode")->text != mode) continue;
    const auto& label = row.find("mechanism")->text;
    auto& cells = grid.rows.emplace_back();
    cells.push_back({label});
    for (const auto& s : samples)
      if (s.mode == mode && s.label == label) cells.push_back({shown(s, samples)});
    cells.push_back({shown(row.find("time_exponent"), "{:.2f}")});
    cells.push_back({shown(row.find("memory_exponent"), "{:.2f}")});
    cells.push_back({shown(row.find("crossover_length"), "{:.0f}")});
    cells.resize(grid.columns.size());
  }
  fmt::print("\n{}: {}\n{}", mode,
             mode == kModel ? "training steps per second (beside softmax, peak memory)"
                            : "median ms (peak memory)",
             reporting::console_grid(grid));
}

}  // namespace

int run(const BenchCommand& command) {
  check_modes(command);
  parse_dtype(command.dtype);
  const auto device = parse_device(command.device);
  Node context = Node::map({{"version", Node::string(version())},
                            {"commit", Node::string(commit())},
                            {"compiler", Node::string(compiler())},
                            {"machine", Node::string(machine_of(device))},
                            {"dtype", Node::string(command.dtype)},
                            {"batch", Node::integer(command.batch)},
                            {"tokens", Node::integer(command.tokens)},
                            {"width", Node::integer(command.width)},
                            {"heads", Node::integer(command.heads)},
                            {"repetitions", Node::integer(command.repetitions)}});
  if (!command.config.empty()) context["config"] = Node::string(command.config);
  std::vector<Sample> samples;
  Node growth = Node::list();
  const auto modes = command.config.empty() ? command.modes : std::vector<std::string>{kModel};
  for (const auto& mode : modes) {
    for (const auto& subject : subjects(command)) {
      const auto promises = mechanism_of(subject.options).promises(options_of(subject.options));
      if (mode == "decode" && !promises.decode) continue;
      const auto failure = arena::broken_promise(subject.options);
      for (const auto length : command.lengths) {
        if (failure.empty())
          samples.push_back(sample(subject, command, mode, length));
        else
          samples.push_back({.label = subject.label,
                             .mode = mode,
                             .length = length,
                             .status = "FAIL",
                             .reason = failure});
        const auto& s = samples.back();
        info(fmt::format("{} {} {}: {}", s.label, s.mode, s.length,
                         s.status == "ok" ? fmt::format("{:.3g} ms", 1e3 * s.median)
                                          : s.status + " " + s.reason));
      }
      growth.items.push_back(growth_of(samples, subject.label, mode));
    }
    print_table(samples, growth, mode);
  }
  const bool failed = std::any_of(samples.begin(), samples.end(),
                                  [](const Sample& s) { return s.status == "FAIL"; });
  if (command.json.empty()) return failed ? 1 : 0;
  Node benchmarks = Node::list();
  for (const auto& s : samples) benchmarks.items.push_back(json_of(s));
  write_file(
      command.json,
      to_json(Node::map({{"context", context}, {"benchmarks", benchmarks}, {"growth", growth}}),
              2) +
          "\n");
  fmt::print("\n{}\n", command.json);
  return failed ? 1 : 0;
}

}  // namespace longbow::cli

// The training step of the small Long Range Arena protocol (2 layers, width 64, 2 heads,
// feed-forward 128) on random tokens: milliseconds of a whole step, forward to update, as it is and
// replayed as a graph. Beside it, bench/torch_step.py times the same step in PyTorch.
//   longbow_step_bench [DEVICE [TASK | profile]]
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "longbow/core/seed.h"
#include "longbow/tensors/profile.h"
#include "longbow/train/step/feed.h"
#include "longbow/train/step/readback.h"
#include "longbow/train/step/step.h"

namespace longbow {
namespace {

struct Shape {
  const char* name;
  int64_t batch, tokens;
  bool pairs = false;
};
constexpr Shape kShapes[] = {{"listops", 32, 2000},
                             {"text", 32, 4096},
                             {"retrieval", 32, 4096, true},
                             {"image", 256, 1024},
                             {"pathfinder", 256, 1024}};
constexpr int64_t kVocabulary = 256, kClasses = 10;
constexpr double kRate = 1e-3;

// Four batches of full sequences.
Splits random_tokens(const Shape& shape) {
  Stream random(1, "bench");
  const auto sequence = [&] {
    std::vector<int32_t> tokens(static_cast<size_t>(shape.tokens));
    for (auto& token : tokens) token = 1 + static_cast<int32_t>(random.below(kVocabulary - 1));
    return tokens;
  };
  std::vector<Sample> samples;
  for (int64_t i = 0; i < 4 * shape.batch; ++i)
    samples.push_back({.tokens = sequence(),
                       .targets = {static_cast<int32_t>(random.below(kClasses))},
                       .second = shape.pairs ? sequence() : std::vector<int32_t>()});
  Splits splits;
  splits.train = splits.valid = splits.test = std::make_shared<SampleList>(samples, false);
  splits.vocabulary = kVocabulary;
  splits.classes = kClasses;
  splits.max_length = shape.tokens;
  return splits;
}

std::unique_ptr<Task> task_of(const Shape& shape, const std::string& mechanism, at::Device device) {
  auto model =
      parse_yaml("{width: 64, heads: 2, layers: 2, positions: learned, attention: " + mechanism +
                     ", block: {feed_forward: 128}}",
                 "model");
  if (shape.pairs) model["head"] = Node::integer(128);
  return find_objective(shape.pairs ? "pairs" : "classification")
      .make(random_tokens(shape), model, {.bucket = 1, .device = device});
}

double step_time(const Shape& shape, const std::string& mechanism, bool graphs, at::Device device) {
  const auto task = task_of(shape, mechanism, device);
  Step step(*task, {.precision = Precision::bf16,
                    .graphs = graphs,
                    .nominal = static_cast<double>(shape.batch)});
  Plan plan = {.padded_length = shape.tokens};
  for (int64_t i = 0; i < shape.batch; ++i) plan.indices.push_back(i);
  const auto batch = collate(*task->splits().train, plan).to(device);
  constexpr int kWarm = 5, kTimed = 9, kSteps = 10;
  int64_t draw = 0;
  for (int i = 0; i < kWarm; ++i) step.run({batch}, draw++, kRate);
  std::vector<double> times;
  for (int i = 0; i < kTimed; ++i) {
    wait_for(device);
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < kSteps; ++k) step.run({batch}, draw++, kRate);
    wait_for(device);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / kSteps);
  }
  std::nth_element(times.begin(), times.begin() + kTimed / 2, times.end());
  return times[kTimed / 2];
}

// What twenty steps of the training loop ask of the device, data and metrics included.
void profile(const Shape& shape, const std::string& mechanism, int64_t resident,
             at::Device device) {
  const auto task = task_of(shape, mechanism, device);
  Step step(*task, {.precision = Precision::bf16, .nominal = static_cast<double>(shape.batch)});
  const auto& data = task->splits().train;
  Feed feed(data, Sampler(lengths_of(*data), {.batch_size = shape.batch, .bucket = 1}, 1), {},
            resident, device);
  Readback readback(device);
  int64_t draw = 0;
  const auto steps = [&] {
    for (int i = 0; i < 20; ++i) {
      step.run({feed.next()}, draw++, kRate);
      readback.send(step.sums(), [](const Readback::Numbers&) {});
    }
  };
  steps();
  fmt::print("{} {}, data {}, 20 steps: ", shape.name, mechanism,
             feed.resident() ? "on the device" : "from the host");
  fmt::print("{}", longbow::profile(steps, device).text());
}

int run(int count, char** arguments) {
  const at::Device device(count > 1 ? arguments[1] : "cuda:0");
  const std::string only = count > 2 ? arguments[2] : "";
  if (only == "profile") {
    for (const std::string mechanism : {"softmax", "linear"})
      for (const int64_t resident : {int64_t{1} << 30, int64_t{0}})
        profile(kShapes[0], mechanism, resident, device);
    return 0;
  }
  fmt::print("{:<12}{:<12}{:>12}{:>12}\n", "task", "mechanism", "eager ms", "graph ms");
  for (const auto& shape : kShapes)
    for (const std::string mechanism : {"softmax", "linear", "local", "linformer", "performer"}) {
      if (!only.empty() && only != shape.name) continue;
      const double eager = step_time(shape, mechanism, false, device);
      const double graph = step_time(shape, mechanism, true, device);
      fmt::print("{:<12}{:<12}{:>12.3f}{:>12.3f}\n", shape.name, mechanism, eager, graph);
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace
}  // namespace longbow

int main(int count, char** arguments) {
  return longbow::run(count, arguments);
}

// The training step of the small Long Range Arena protocol (2 layers, width 64, 2 heads,
// feed-forward 128) on random tokens: milliseconds of a whole step, forward to update, as it is and
// replayed as a graph. Beside it, bench/torch_step.py times the same step in PyTorch.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "longbow/core/seed.h"
#include "longbow/train/step.h"

namespace longbow {
namespace {

struct Shape {
  const char* name;
  int64_t batch, tokens;
};
constexpr Shape kShapes[] = {{"listops", 32, 2000},
                             {"text", 32, 4096},
                             {"retrieval", 64, 4096},
                             {"image", 256, 1024},
                             {"pathfinder", 256, 1024}};

Splits random_tokens(const Shape& shape) {
  Splits splits;
  splits.train = splits.valid = splits.test =
      std::make_shared<SampleList>(std::vector<Sample>{{.tokens = {1}, .targets = {0}}}, false);
  splits.vocabulary = 256;
  splits.classes = 10;
  splits.max_length = shape.tokens;
  return splits;
}

Batch random_batch(const Shape& shape, at::Device device) {
  const auto random = Random::from_seed(1, 0, device);
  const auto draw = [&](at::IntArrayRef sizes, int64_t below, const char* site) {
    return (random.uniform(sizes, site) * static_cast<double>(below)).to(at::kLong);
  };
  return {.tokens = draw({shape.batch, shape.tokens}, 255, "tokens") + 1,
          .lengths = at::full({shape.batch}, shape.tokens, at::kLong).to(device),
          .targets = draw({shape.batch}, 10, "targets"),
          .samples = shape.batch,
          .padded = false};
}

void wait_for(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

double step_time(const Shape& shape, const std::string& mechanism, Precision precision, bool graphs,
                 at::Device device) {
  const auto model =
      parse_yaml("{width: 64, heads: 2, layers: 2, positions: learned, attention: " + mechanism +
                     ", block: {feed_forward: 128}}",
                 "model");
  const auto task = find_objective("classification")
                        .make(random_tokens(shape), model, {.bucket = 1, .device = device});
  Step step(
      *task,
      {.precision = precision, .graphs = graphs, .nominal = static_cast<double>(shape.batch)});
  const auto batch = random_batch(shape, device);
  constexpr int kWarm = 5, kTimed = 9, kSteps = 10;
  int64_t draw = 0;
  for (int i = 0; i < kWarm; ++i) step.run({batch}, draw++, 1e-3);
  std::vector<double> times;
  for (int i = 0; i < kTimed; ++i) {
    wait_for(device);
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < kSteps; ++k) step.run({batch}, draw++, 1e-3);
    wait_for(device);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / kSteps);
  }
  std::nth_element(times.begin(), times.begin() + kTimed / 2, times.end());
  return times[kTimed / 2];
}

int run(int count, char** arguments) {
  const at::Device device(count > 1 ? arguments[1] : "cuda:0");
  const std::string only = count > 2 ? arguments[2] : "";
  fmt::print("{:<12}{:<12}{:>12}{:>12}\n", "task", "mechanism", "eager ms", "graph ms");
  for (const auto& shape : kShapes)
    for (const std::string mechanism : {"softmax", "linear"}) {
      if (!only.empty() && only != shape.name) continue;
      const double eager = step_time(shape, mechanism, Precision::bf16, false, device);
      const double graph = step_time(shape, mechanism, Precision::bf16, true, device);
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

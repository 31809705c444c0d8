// linformer-pytorch's README example: 262144 tokens, 64 channels, 2 layers, 4 heads of width 256,
// float32, with dropout. Milliseconds of forward and backward, and peak memory, by checkpoint
// level.
//   longbow_linformer_bench [DEVICE [profile]]
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "longbow/tensors/meter.h"
#include "longbow/tensors/profile.h"
#include "tests/models/linformer_readme.h"

namespace longbow {
namespace {

int run(int count, char** arguments) {
  const at::Device device(count > 1 ? arguments[1] : "cuda:0");
  const bool profiles = count > 2 && std::string(arguments[2]) == "profile";
  const auto draw = [&](const char* name) {
    return Random::from_seed(1, 0, device).normal({1, 262144, 64}, name);
  };
  const auto x = draw("x"), direction = draw("y");
  for (const auto level : {CheckpointLevel::C0, CheckpointLevel::C1, CheckpointLevel::C2}) {
    auto config = readme_example(262144);
    config.checkpoint_level = level;
    Linformer net(config, /*seed=*/3);
    net.to(device);
    const auto step = [&] {
      net.zero_grad();
      net(x, {.random = Random::from_seed(8, 0, device)}).backward(direction);
    };
    const auto usage = measure(step, device);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      wait_for(device);
      const auto start = std::chrono::steady_clock::now();
      step();
      wait_for(device);
      times.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
              .count());
    }
    std::sort(times.begin(), times.end());
    fmt::print("C{}: {:.1f} ms, {:.2f} GB\n", static_cast<int>(level), times[4],
               static_cast<double>(usage.peak_bytes) / 1e9);
    if (profiles) fmt::print("{}", profile(step, device).text());
  }
  return 0;
}

}  // namespace
}  // namespace longbow

int main(int count, char** arguments) {
  return longbow::run(count, arguments);
}

#include "longbow/cli/bench_peaks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#ifdef LONGBOW_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace longbow::cli {
namespace {

void wait_for(c10::Device device) {
#ifdef LONGBOW_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#else
  (void)device;
#endif
}

// The best of a few runs after the first.
double least_seconds(const std::function<void()>& body, c10::Device device) {
  constexpr int kRuns = 5;
  body();
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) least = std::min(least, timed(body, device).clock);
  return least;
}

}  // namespace

Seconds timed(const std::function<void()>& body, c10::Device device) {
  wait_for(device);
  const auto start = std::chrono::steady_clock::now();
  const auto used = std::clock();
  body();
  wait_for(device);
  const auto ticks = static_cast<double>(std::clock() - used);
  const double clock =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {clock, device.is_cpu() ? ticks / CLOCKS_PER_SEC : clock};
}

Peaks measured_peaks(c10::Device device, c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  const int64_t side = device.is_cpu() ? 1024 : 8192, megabytes = device.is_cpu() ? 64 : 1024;
  const auto options = at::TensorOptions().device(device).dtype(type);
  const auto a = at::randn({side, side}, options), b = at::randn({side, side}, options);
  auto product = at::empty_like(a);
  const auto from = at::ones({megabytes << 20}, options.dtype(at::kByte));
  auto to = at::empty_like(from);
  const auto cube = static_cast<double>(side) * static_cast<double>(side * side);
  return {.operations = 2 * cube / least_seconds([&] { at::mm_out(product, a, b); }, device),
          .bytes = 2 * static_cast<double>(from.numel()) /
                   least_seconds([&] { to.copy_(from); }, device)};
}

}  // namespace longbow::cli

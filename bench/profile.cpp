#include "bench/profile.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <set>

namespace longbow {
namespace {

struct Kernel {
  std::string name;
  uint64_t nanoseconds = 0;
  int count = 0;
};

void print_longest(std::map<std::string, Kernel>& kernels) {
  std::vector<Kernel> sorted;
  for (auto& [name, kernel] : kernels) sorted.push_back(kernel);
  std::sort(sorted.begin(), sorted.end(),
            [](const Kernel& a, const Kernel& b) { return a.nanoseconds > b.nanoseconds; });
  sorted.resize(std::min<size_t>(sorted.size(), 12));
  for (const auto& kernel : sorted)
    fmt::print("  {:>10.3f} ms {:>6} x {:.100}\n", static_cast<double>(kernel.nanoseconds) / 1e6,
               kernel.count, kernel.name);
}

}  // namespace

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

void print_profile(const std::function<void()>& body, c10::Device device) {
  namespace profiler = torch::autograd::profiler;
  wait_for(device);
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  const std::set<profiler::ActivityType> activities = {profiler::ActivityType::CPU,
                                                       profiler::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  body();
  wait_for(device);
  const auto result = profiler::disableProfiler();
  std::map<std::string, int> calls;
  std::map<std::string, Kernel> kernels;
  std::vector<std::pair<uint64_t, uint64_t>> busy;
  for (const auto& event : result->events()) {
    if (event.deviceType() != at::kCUDA) {
      if (event.name().starts_with("cuda")) ++calls[event.name()];
      continue;
    }
    busy.emplace_back(event.startNs(), event.startNs() + event.durationNs());
    auto& kernel = kernels[event.name()];
    kernel.name = event.name();
    kernel.nanoseconds += event.durationNs();
    ++kernel.count;
  }
  std::sort(busy.begin(), busy.end());
  uint64_t end = busy.empty() ? 0 : busy.front().first, idle = 0;
  const uint64_t begin = end;
  for (const auto& [from, to] : busy) {
    if (from > end) idle += from - end;
    end = std::max(end, to);
  }
  const auto whole = static_cast<double>(std::max<uint64_t>(end - begin, 1));
  fmt::print("{:.2f} ms, a kernel runs {:.1f} % of the time\n", whole / 1e6,
             100 - 100 * static_cast<double>(idle) / whole);
  for (const auto& [name, count] : calls) fmt::print("  {:<32}{:>8}\n", name, count);
  print_longest(kernels);
}

}  // namespace longbow

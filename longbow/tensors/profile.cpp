#include "longbow/tensors/profile.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

namespace longbow {
namespace {

namespace profiler = torch::autograd::profiler;

struct Span {
  uint64_t start = 0, end = 0;
  std::string name;
};

// Operators of one thread contain those they call: what each takes by itself.
std::vector<uint64_t> own_times(std::vector<Span>& spans) {
  std::ranges::sort(spans, [](const Span& a, const Span& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<uint64_t> own;
  std::vector<size_t> open;
  for (size_t i = 0; i < spans.size(); ++i) {
    while (!open.empty() && spans[open.back()].end <= spans[i].start) open.pop_back();
    const auto took = spans[i].end - spans[i].start;
    if (!open.empty()) own[open.back()] -= std::min(own[open.back()], took);
    own.push_back(took);
    open.push_back(i);
  }
  return own;
}

// Nanoseconds from the first start to the last end, and those of them in which something runs.
std::pair<uint64_t, uint64_t> whole_and_busy(std::vector<std::pair<uint64_t, uint64_t>> spans) {
  if (spans.empty()) return {0, 0};
  std::ranges::sort(spans);
  const uint64_t begin = spans.front().first;
  uint64_t end = begin, idle = 0;
  for (const auto& [from, to] : spans) {
    if (from > end) idle += from - end;
    end = std::max(end, to);
  }
  return {end - begin, end - begin - idle};
}

double milliseconds_of(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e6;
}

// The profiler is on until `stop`, or until the end where an exception comes before.
class Recording {
 public:
  Recording(const profiler::ProfilerConfig& config,
            const std::set<profiler::ActivityType>& activities) {
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
  }
  ~Recording() {
    if (on_) profiler::disableProfiler();
  }
  std::unique_ptr<profiler::ProfilerResult> stop() {
    on_ = false;
    return profiler::disableProfiler();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  bool on_ = true;
};

}  // namespace

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

Profile profile(const std::function<void()>& body, c10::Device device) {
  ::setenv("KINETO_LOG_LEVEL", "5", 0);  // it complains of machines without a GPU
  wait_for(device);
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  std::set<profiler::ActivityType> activities = {profiler::ActivityType::CPU};
  if (device.is_cuda()) activities.insert(profiler::ActivityType::CUDA);
  Recording recording(config, activities);
  body();
  wait_for(device);
  const auto result = recording.stop();
  Profile profile;
  std::map<uint64_t, std::vector<Span>> threads;  // a stream has no nested kernels
  std::vector<std::pair<uint64_t, uint64_t>> all;
  for (const auto& event : result->events()) {
    if (event.deviceType() == device.type()) {
      const auto end = event.startNs() + event.durationNs();
      threads[event.startThreadId()].push_back({event.startNs(), end, event.name()});
      all.emplace_back(event.startNs(), end);
    } else if (event.name().starts_with("cuda")) {
      ++profile.runtime_calls[event.name()];
    }
  }
  std::map<std::string, Profile::Part> parts;
  for (auto& [thread, spans] : threads) {
    const auto own = own_times(spans);
    for (size_t i = 0; i < spans.size(); ++i) {
      auto& part = parts[spans[i].name];
      part.name = spans[i].name;
      part.milliseconds +=
          milliseconds_of(device.is_cuda() ? spans[i].end - spans[i].start : own[i]);
      ++part.count;
    }
  }
  for (auto& [name, part] : parts) profile.parts.push_back(std::move(part));
  std::ranges::sort(profile.parts, std::ranges::greater(), &Profile::Part::milliseconds);
  const auto [whole, busy] = whole_and_busy(std::move(all));
  profile.milliseconds = milliseconds_of(whole);
  profile.busy = static_cast<double>(busy) / static_cast<double>(std::max<uint64_t>(whole, 1));
  return profile;
}

std::string Profile::text(size_t most) const {
  auto text = fmt::format("{:.3f} ms, busy {:.1f} % of the time\n", milliseconds, 100 * busy);
  for (const auto& [name, count] : runtime_calls)
    text += fmt::format("  {:<32}{:>8}\n", name, count);
  for (size_t i = 0; i < std::min(most, parts.size()); ++i)
    text += fmt::format("{:>12.3f} ms {:>6} x {:.110}\n", parts[i].milliseconds, parts[i].count,
                        parts[i].name);
  return text;
}

}  // namespace longbow

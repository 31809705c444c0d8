#include "longbow/core/work.h"

#include <atomic>
#include <utility>

#include "longbow/core/interruption.h"

namespace longbow {
namespace {

constexpr double kQuietSeconds = 2;
std::atomic<ProgressStyle> work_style = ProgressStyle::off;

}  // namespace

void show_work(ProgressStyle style) {
  work_style = style;
}

Work::Work(std::string label, int64_t total)
    : progress_(std::move(label), total, work_style, {.quiet = kQuietSeconds}) {}

void Work::reached(int64_t count) {
  check_interruption();
  progress_.update(count, {});
}

}  // namespace longbow

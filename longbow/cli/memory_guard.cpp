#include "longbow/cli/memory_guard.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>

#include "longbow/core/log.h"
#include "longbow/core/memory.h"

namespace longbow::cli {
namespace {

// The C library keeps what was freed, so the system counts it as taken.
double kept_by_the_library() {
#ifdef __GLIBC__
  return static_cast<double>(mallinfo2().fordblks);
#else
  return 0;
#endif
}

double available() {
  return available_memory() + kept_by_the_library();
}

// Asking the system takes a tenth of a millisecond, so that it is asked for every so many bytes
// only. Blocks are those of the allocator behind, with its deleter.
class GuardedAllocator final : public c10::Allocator {
 public:
  explicit GuardedAllocator(c10::Allocator* original) : original_(original) {}

  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kBetweenChecks = size_t{256} << 20;
    const auto counted = std::min(bytes, kBetweenChecks);
    if (unchecked_.fetch_add(counted) + counted >= kBetweenChecks) {
      unchecked_ = 0;
      check(static_cast<double>(bytes));
    }
    try {
      return original_->allocate(bytes);
    } catch (const c10::Error&) {
      refuse_memory(static_cast<double>(bytes), available());
    }
  }
  c10::DeleterFnPtr raw_deleter() const override { return original_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    original_->copy_data(to, from, bytes);
  }

 private:
  static void check(double bytes) {
    constexpr double kReserve = 16 << 20;
    if (const auto left = available(); bytes + kReserve > left) refuse_memory(bytes, left);
  }

  c10::Allocator* original_;
  std::atomic<size_t> unchecked_ = 0;
};

}  // namespace

void guard_memory() {
  static GuardedAllocator* const guarded = new GuardedAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(guarded, /*priority=*/1);
}

void refuse_memory(double wanted, double available) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "not enough memory: ", human_bytes(wanted),
                   " are asked for, ", human_bytes(available), " are available");
}

}  // namespace longbow::cli

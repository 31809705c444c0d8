#include "longbow/core/on_all_cores.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace longbow {

void on_all_cores(int64_t count, const std::function<void(int64_t)>& each, int64_t threads) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  int64_t failed = count;  // the smallest number that did
  std::exception_ptr failure;
  const auto work = [&] {
    for (int64_t i; (i = next++) < count;) {
      try {
        each(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) failure = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
    }
  };
  const int64_t cores =
      threads > 0 ? threads : std::max<int64_t>(1, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < std::min(cores, count); ++i) others.emplace_back(work);
  work();
  others.clear();  // waits for them
  if (failure) std::rethrow_exception(failure);
}

}  // namespace longbow

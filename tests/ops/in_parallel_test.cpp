#include "longbow/ops/in_parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace longbow {
namespace {

constexpr int64_t kMuch = 1 << 20;

TEST(InParallel, GivesEachNumberOnce) {
  for (const int64_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<size_t>(count));
    in_parallel(count, kMuch, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) ++times[static_cast<size_t>(i)];
    });
    for (const auto& each : times) EXPECT_EQ(each, 1);
  }
}

// at::parallel_for does not, in code that is compiled without OpenMP.
TEST(InParallel, UsesSeveralThreads) {
  if (at::get_num_threads() < 2) GTEST_SKIP() << "one thread";
  std::mutex mutex;
  std::set<std::thread::id> threads;
  in_parallel(2 * at::get_num_threads(), kMuch, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_GT(threads.size(), 1u);
}

TEST(InParallel, LittleWorkStaysOnOneThread) {
  std::set<std::thread::id> threads;
  int parts = 0;
  in_parallel(100, 1, [&](int64_t first, int64_t last) {
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, 100);
    threads.insert(std::this_thread::get_id());
    ++parts;
  });
  EXPECT_EQ(parts, 1);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(InParallel, AnErrorReachesTheCaller) {
  EXPECT_THROW(in_parallel(8, kMuch, [](int64_t, int64_t) { throw std::runtime_error("broken"); }),
               std::runtime_error);
}

TEST(InParallel, InsideAnotherItIsSerial) {
  std::atomic<int> sum = 0;
  in_parallel(4, kMuch, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      in_parallel(5, kMuch, [&](int64_t from, int64_t to) { sum += static_cast<int>(to - from); });
  });
  EXPECT_EQ(sum, 20);
}

}  // namespace
}  // namespace longbow

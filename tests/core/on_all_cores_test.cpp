#include "longbow/core/on_all_cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace longbow {
namespace {

TEST(OnAllCores, CallsEachOnce) {
  for (const int64_t threads : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> calls(100);
    on_all_cores(
        100, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; }, threads);
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
  on_all_cores(0, [](int64_t) { FAIL() << "there is nothing to do"; });
}

TEST(OnAllCores, ThrowsWhatTheFirstCallThrew) {
  for (const int64_t threads : {1, 3}) {
    std::string message;
    try {
      on_all_cores(
          50,
          [](int64_t i) {
            if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
          },
          threads);
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "7");
  }
}

}  // namespace
}  // namespace longbow

#pragma once
// How much memory something takes, measured in a process of its own.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>

namespace longbow {

// Most bytes that were in memory at once while `act` ran, beyond those before; `act` may throw.
inline int64_t peak_bytes(const std::function<void()>& act) {
  const auto child = fork();
  if (child == 0) {
    try {
      act();
    } catch (...) {
    }
    _exit(0);
  }
  int status = 0;
  rusage used = {};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return int64_t{used.ru_maxrss} * 1024 - resident * sysconf(_SC_PAGESIZE);
}

}  // namespace longbow

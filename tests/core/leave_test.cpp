#include "longbow/core/leave.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((weak)) void __lsan_do_leak_check();

namespace longbow {
namespace {

// stdout is buffered when it is no terminal; the death test reads stderr.
TEST(Leave, WritesWhatWasPrinted) {
  EXPECT_EXIT(
      {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        std::setvbuf(stdout, nullptr, _IOFBF, BUFSIZ);
        std::fputs("printed", stdout);
        leave(3);
      },
      testing::ExitedWithCode(3), "^printed$");
}

TEST(Leave, RunsNoDestructors) {
  if (__lsan_do_leak_check) GTEST_SKIP() << "a sanitizer looks for leaks";
  EXPECT_EXIT(
      {
        std::atexit([] { std::fputs("an atexit function ran", stderr); });
        leave(0);
      },
      testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace longbow

#include "longbow/core/work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "longbow/core/console.h"
#include "longbow/core/interruption.h"

namespace longbow {
namespace {

TEST(Work, EndsWhereASignalAsksForIt) {
  InterruptionGuard guard;
  Work work("making", 3);
  work.reached(1);
  std::raise(SIGTERM);
  EXPECT_THROW(work.reached(2), Interrupted);
}

TEST(Work, IsShownOnceItTakesAWhile) {
  std::string written;
  set_console({.write = [&](const std::string& text) { written += text; }});
  show_work(ProgressStyle::plain);
  {
    Work work("making", 2);
    work.reached(1);
    EXPECT_EQ(written, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(2010));
    work.reached(2);
  }
  show_work(ProgressStyle::off);
  set_console({});
  EXPECT_TRUE(written.starts_with("making 2/2 (100%)  elapsed 2")) << written;
}

}  // namespace
}  // namespace longbow

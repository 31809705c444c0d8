#include "longbow/core/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "longbow/core/file.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

// This program again, with one test that says how the process ends.
std::vector<std::string> only(const std::string& test) {
  return {"--gtest_also_run_disabled_tests", "--gtest_filter=Child.DISABLED_" + test};
}

ChildEnd end_of(Child& child) {
  for (;;) {
    if (const auto end = child.poll()) return *end;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(Child, DISABLED_ExitsWithSeven) {
  std::fputs("seven", stderr);
  ::_exit(7);
}
TEST(Child, DISABLED_Crashes) {
  std::raise(SIGKILL);
}
TEST(Child, DISABLED_Waits) {
  for (;;) ::pause();
}

TEST(Child, TellsTheCodeAndKeepsTheMessages) {
  const auto file = (scratch() / "messages").string();
  for (const auto* wanted : {"seven", "sevenseven"}) {
    Child child(only("ExitsWithSeven"), file);
    const auto end = end_of(child);
    EXPECT_EQ(end.code, 7);
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end_of(child).code, 7) << "asked again";
    EXPECT_EQ(read_file(file), wanted);
  }
}

TEST(Child, TellsTheSignal) {
  Child child(only("Crashes"));
  const auto end = end_of(child);
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_EQ(end.code, 0);
}

TEST(Child, EndsWhenItIsTold) {
  Child child(only("Waits"));
  EXPECT_FALSE(child.poll());
  child.tell_to_end();
  EXPECT_EQ(end_of(child).signal, SIGTERM);
}

TEST(Child, IsNotLeftBehind) {
  const auto start = std::chrono::steady_clock::now();
  { const Child child(only("Waits")); }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace longbow

#include "longbow/core/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "longbow/core/console.h"
#include "tests/core/support.h"

namespace longbow {
namespace {

class Log : public testing::Test {
 protected:
  Log() { use({}); }
  ~Log() override {
    unsetenv("NO_COLOR");
    set_log_level(Level::info);
    set_console({});
  }
  void use(Console console) {
    console.write = [this](const std::string& text) { written += text; };
    set_console(std::move(console));
  }
  std::string written;
};

}  // namespace

TEST_F(Log, WritesOneLineAMessage) {
  info("hello");
  warn("careful");
  log(Level::error, "broken");
  log(Level::debug, "hidden");
  EXPECT_EQ(written, "hello\nwarning: careful\nerror: broken\n");
}

TEST_F(Log, TheLevelDecides) {
  set_log_level(Level::debug);
  log(Level::debug, "seen");
  set_log_level(Level::error);
  warn("hidden");
  EXPECT_EQ(written, "debug: seen\n");
}

TEST_F(Log, ColoursOnlyATerminalThatWantsThem) {
  unsetenv("NO_COLOR");
  use({.terminal = true});
  warn("a");
  setenv("NO_COLOR", "1", 1);
  warn("b");
  EXPECT_EQ(written, "\x1b[33mwarning: \x1b[0ma\nwarning: b\n");
}

TEST_F(Log, LinesOfSeveralThreadsStayWhole) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) info("0123456789");
    });
  for (auto& thread : threads) thread.join();
  std::string expected;
  for (int i = 0; i < 800; ++i) expected += "0123456789\n";
  EXPECT_EQ(written, expected);
}

TEST_F(Log, ALineIsWrittenAboveTheBar) {
  draw_bar("50%");
  info("saved");
  erase_bar();
  erase_bar();
  EXPECT_EQ(written, "\r\x1b[K50%\r\x1b[Ksaved\n50%\r\x1b[K");
}

TEST(Human, CountsBytesAndSecondsAreShort) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(4560000), "4.56M");
  EXPECT_EQ(human_count(999999), "1M");
  EXPECT_EQ(human_count(-1500), "-1.5k");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(human_bytes(1023 * 1024.0), "1023 KiB");
  EXPECT_EQ(human_seconds(0.52), "0.5s");
  EXPECT_EQ(human_seconds(59.4), "59s");
  EXPECT_EQ(human_seconds(83), "1m23s");
  EXPECT_EQ(human_seconds(3660), "1h01m");
  EXPECT_EQ(human_seconds(90000), "1d01h");
  EXPECT_EQ(human_seconds(-1), "?");
}

}  // namespace longbow

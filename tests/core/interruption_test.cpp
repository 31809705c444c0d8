#include "longbow/core/interruption.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/core/support.h"

namespace longbow {
namespace {

volatile std::sig_atomic_t host_saw = 0;
void host_handler(int number) {
  host_saw = number;
}

TEST(Interruption, IsNotedWhileAGuardLives) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    InterruptionGuard guard;
    EXPECT_EQ(noted_signal(), 0);
    EXPECT_NO_THROW(check_interruption());
    std::raise(number);
    EXPECT_EQ(noted_signal(), number);
    try {
      check_interruption();
      FAIL() << "no Interrupted";
    } catch (const Interrupted& interrupted) {
      EXPECT_EQ(interrupted.signal, number);
    }
  }
  EXPECT_EQ(noted_signal(), 0);
}

TEST(Interruption, AnInnerGuardKeepsWhatTheOuterOneNoted) {
  InterruptionGuard outer;
  std::raise(SIGTERM);
  {
    InterruptionGuard inner;
    EXPECT_EQ(noted_signal(), SIGTERM);
  }
  EXPECT_EQ(noted_signal(), SIGTERM);
  std::raise(SIGTERM);  // still ours
}

TEST(Interruption, TheHostGetsItsHandlersBack) {
  struct sigaction host {
  }, found{};
  host.sa_handler = host_handler;
  sigaction(SIGINT, &host, nullptr);
  { InterruptionGuard guard; }
  sigaction(SIGINT, nullptr, &found);
  EXPECT_EQ(found.sa_handler, host_handler);
  std::raise(SIGINT);
  EXPECT_EQ(host_saw, SIGINT);
  std::signal(SIGINT, SIG_DFL);
}

TEST(Interruption, WhatNohupIgnoresStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    InterruptionGuard guard;
    std::raise(SIGHUP);
    EXPECT_EQ(noted_signal(), 0);
  }
  std::signal(SIGHUP, SIG_DFL);
}

TEST(Interruption, IsAnsweredAtOnceAndTheSecondCtrlCEndsTheProgram) {
  EXPECT_EXIT(
      {
        InterruptionGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT),
      "^interrupted: stopping once everything is saved; press Ctrl-C again to stop at once\n$");
}

// `timeout` sends its signal twice, and so does a terminal that is closed.
TEST(Interruption, OtherSignalsMayComeTwice) {
  EXPECT_EXIT(
      {
        InterruptionGuard guard;
        for (const int number : {SIGTERM, SIGTERM, SIGHUP, SIGHUP, SIGPIPE, SIGPIPE})
          std::raise(number);
        std::exit(noted_signal() == SIGTERM ? 0 : 1);
      },
      testing::ExitedWithCode(0), "^asked to end: stopping once everything is saved\n$");
}

TEST(Interruption, SaysWhatTheUserCanDo) {
  EXPECT_STREQ(Interrupted(SIGINT).what(), "interrupted");
  EXPECT_STREQ(Interrupted(SIGINT, "continue with `x`").what(), "interrupted; continue with `x`");
}

}  // namespace
}  // namespace longbow

#include "longbow/train/interruption.h"

#include <gtest/gtest.h>

#include <csignal>

namespace longbow {
namespace {

TEST(Interruption, IsNotedWhileAGuardLives) {
  InterruptionGuard guard;
  EXPECT_EQ(guard.signal(), 0);
  std::raise(SIGTERM);
  EXPECT_EQ(guard.signal(), SIGTERM);
}

TEST(Interruption, ANewGuardStartsClean) {
  {
    InterruptionGuard first;
    std::raise(SIGINT);
    EXPECT_EQ(first.signal(), SIGINT);
  }
  EXPECT_EQ(InterruptionGuard().signal(), 0);
}

TEST(Interruption, TheSecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        InterruptionGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(Interruption, SaysThatEverythingIsSaved) {
  const Interrupted interrupted(SIGINT);
  EXPECT_EQ(interrupted.signal, SIGINT);
  EXPECT_STREQ(interrupted.what(), "interrupted; everything is saved, --resume continues");
}

}  // namespace
}  // namespace longbow

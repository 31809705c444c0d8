#pragma once
// A terminal that a test types at, and a program that reads from it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <string>

#include "tests/cli/program.h"

namespace longbow::cli {

class Terminal {
 public:
  Terminal() : typing_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (typing_ >= 0 && grantpt(typing_) == 0 && unlockpt(typing_) == 0)
      reading_ = open(ptsname(typing_), O_RDWR | O_NOCTTY);
  }
  ~Terminal() {
    close(reading_);
    close(typing_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool is_there() const { return reading_ >= 0; }  // a bare root without devpts has none
  int reading() const { return reading_; }         // what a program takes as its stdin
  void type(const std::string& text) const {
    EXPECT_EQ(write(typing_, text.data(), text.size()), std::ssize(text));
  }
  void end() const { type("\x04"); }

 private:
  int typing_, reading_ = -1;
};

// Waits until the program has written so many lines to a file; false when it does not within a
// minute, or ends before.
inline bool wait_for_lines(const Workspace& here, Running& program, const std::string& file,
                           size_t count) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto enough = [&] { return lines_of(here.read(file)).size() >= count; };
  program.wait_until([&] { return enough() || std::chrono::steady_clock::now() > last; });
  return enough();
}

}  // namespace longbow::cli

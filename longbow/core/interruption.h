#pragma once
// Signals that ask a long command to stop. They are noted at once and act where the command asks
// for them, so that what it has done can be saved.
#include <stdexcept>
#include <string>

namespace longbow {

// Thrown where a command stops because of a signal; the program exits with 128 + signal.
struct Interrupted : std::runtime_error {
  // `next` says what the user can do now.
  explicit Interrupted(int signal_number, const std::string& next = "");
  int signal;
};

// While one lives, SIGINT, SIGTERM, SIGHUP and SIGPIPE are noted instead of ending the program, and
// the first of them is answered on stderr. A SIGINT that follows another one ends it at once. A
// SIGHUP that the program was told to ignore (nohup) stays ignored. Guards may nest: the outermost
// one takes the signals over, and gives them back to whoever had them.
class InterruptionGuard {
 public:
  InterruptionGuard();
  ~InterruptionGuard();
  InterruptionGuard(const InterruptionGuard&) = delete;
  InterruptionGuard& operator=(const InterruptionGuard&) = delete;
};

int noted_signal();         // the first since the outermost guard; 0 = none, or no guard
void check_interruption();  // throws Interrupted when there is one

}  // namespace longbow

#pragma once
#include <stdexcept>

namespace longbow {

// Thrown by the trainer once it has saved, after SIGINT or SIGTERM; the program exits with 128 +
// signal.
struct Interrupted : std::runtime_error {
  explicit Interrupted(int signal_number)
      : std::runtime_error("interrupted; everything is saved, --resume continues"),
        signal(signal_number) {}
  int signal;
};

// While one lives, SIGINT and SIGTERM are noted instead of ending the program; a second one ends it
// at once.
class InterruptionGuard {
 public:
  InterruptionGuard();
  ~InterruptionGuard();
  InterruptionGuard(const InterruptionGuard&) = delete;
  InterruptionGuard& operator=(const InterruptionGuard&) = delete;
  int signal() const;  // 0 = none came
};

}  // namespace longbow

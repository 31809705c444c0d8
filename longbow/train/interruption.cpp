#include "longbow/train/interruption.h"

#include <atomic>
#include <csignal>

namespace longbow {
namespace {

std::atomic<int> noted{0};

void note(int signal_number) {
  noted = signal_number;
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

InterruptionGuard::InterruptionGuard() {
  noted = 0;
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

InterruptionGuard::~InterruptionGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int InterruptionGuard::signal() const {
  return noted;
}

}  // namespace longbow

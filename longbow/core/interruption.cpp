#include "longbow/core/interruption.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "longbow/core/console.h"

namespace longbow {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

std::atomic<int> noted{0};
std::atomic<bool> asked{false};  // by SIGINT
std::atomic<bool> on_terminal{false};
std::atomic<int> depth{0};
std::array<struct sigaction, kSignals.size()> before{};

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Only what a signal handler may call.
void say(const char* text) {
  const int kept = errno;
  if (on_terminal) {
    constexpr char kEraseLine[] = "\r\x1b[K";
    (void)!::write(STDERR_FILENO, kEraseLine, sizeof kEraseLine - 1);
  }
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
  errno = kept;
}

void note(int number) {
  if (number == SIGINT && asked.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);  // delivered when this handler returns
    return;
  }
  int none = 0;
  const bool is_first = noted.compare_exchange_strong(none, number);
  if (number == SIGINT)
    say("interrupted: stopping once everything is saved; press Ctrl-C again to stop at once\n");
  else if (is_first && number != SIGPIPE)
    say("asked to end: stopping once everything is saved\n");
}

void take_over() {
  noted = 0;
  asked = false;
  on_terminal = console_is_terminal();
  struct sigaction ours {};
  ours.sa_handler = note;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    const bool stays = kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN;
    if (!stays) sigaction(kSignals[i], &ours, nullptr);
  }
}

std::string message(const std::string& next) {
  return "interrupted" + (next.empty() ? "" : "; " + next);
}

}  // namespace

Interrupted::Interrupted(int signal_number, const std::string& next)
    : std::runtime_error(message(next)), signal(signal_number) {}

InterruptionGuard::InterruptionGuard() {
  if (depth++ == 0) take_over();
}

InterruptionGuard::~InterruptionGuard() {
  if (--depth > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  noted = 0;
}

int noted_signal() {
  return noted;
}

void check_interruption() {
  if (const int number = noted) throw Interrupted(number);
}

}  // namespace longbow

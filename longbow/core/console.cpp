#include "longbow/core/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace longbow {
namespace {

constexpr const char* kEraseLine = "\r\x1b[K";

size_t stderr_columns() {
  winsize size{};
  bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

Console stderr_console() {
  const char* term = std::getenv("TERM");
  bool dumb = term && std::string_view(term) == "dumb";
  return {
      .write = [](const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); },
      .terminal = isatty(STDERR_FILENO) == 1 && !dumb,
      .columns = stderr_columns()};
}

struct State {
  std::mutex mutex;
  Console console = stderr_console();
  std::string bar;
};

// Never destroyed: threads may still log while the program ends.
State& state() {
  static State& only = *new State;
  return only;
}

}  // namespace

void set_console(Console console) {
  auto& shared = state();
  std::lock_guard lock(shared.mutex);
  shared.bar.clear();
  shared.console = console.write ? std::move(console) : stderr_console();
}

bool console_is_terminal() {
  std::lock_guard lock(state().mutex);
  return state().console.terminal;
}

bool console_has_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return console_is_terminal() && !(refused && *refused);
}

size_t console_columns() {
  std::lock_guard lock(state().mutex);
  return state().console.columns;
}

void print_line(const std::string& line) {
  auto& shared = state();
  std::lock_guard lock(shared.mutex);
  shared.console.write((shared.bar.empty() ? "" : kEraseLine) + line + "\n" + shared.bar);
}

void draw_bar(const std::string& bar) {
  auto& shared = state();
  std::lock_guard lock(shared.mutex);
  shared.bar = bar;
  shared.console.write(kEraseLine + bar);
}

void erase_bar() {
  auto& shared = state();
  std::lock_guard lock(shared.mutex);
  if (!shared.bar.empty()) shared.console.write(kEraseLine);
  shared.bar.clear();
}

}  // namespace longbow

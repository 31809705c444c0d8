#pragma once
// Where log and progress write: stderr, or what a test puts in its place.
#include <functional>
#include <string>

namespace longbow {

struct Console {
  std::function<void(const std::string&)> write{};  // empty: stderr
  bool terminal = false;
  size_t columns = 80;
};
void set_console(Console console);  // {} brings stderr back

bool console_is_terminal();
bool console_has_colour();  // a terminal, and NO_COLOR is not set
size_t console_columns();

// One bar at most stays below the lines; a line is written above it.
void print_line(const std::string& line);
void draw_bar(const std::string& bar);
void erase_bar();

}  // namespace longbow

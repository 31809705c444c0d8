#pragma once
#include <exception>
#include <string>

namespace longbow::cli {

// What a person reads when a command fails.
struct Failure {
  std::string text;  // one line
  int code = 1;      // that the program exits with
  bool out_of_memory = false;
};
Failure failure_of(const std::exception_ptr& error);

// The last output has arrived, or this throws.
void flush_output();

}  // namespace longbow::cli

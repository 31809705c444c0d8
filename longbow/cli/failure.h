#pragma once
#include <exception>
#include <optional>
#include <string>

namespace longbow::cli {

// What a person reads when a command fails.
struct Failure {
  std::string text;  // one line
  int code = 1;      // that the program exits with
  bool out_of_memory = false;
};
Failure failure_of(const std::exception_ptr& error);

// For the process that waits for this one.
void write_failure(const Failure& failure, const std::string& file);
std::optional<Failure> read_failure(const std::string& file);  // none where there is no such file

// The last output has arrived, or this throws.
void flush_output();

}  // namespace longbow::cli

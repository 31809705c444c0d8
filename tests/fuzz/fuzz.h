#pragma once
// What every reader is held to: it succeeds, or it refuses in one short line. Any other exception,
// a crash, much time or much memory is a finding.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "longbow/core/error.h"

namespace longbow::fuzz {

[[noreturn]] inline void found(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// For LLVMFuzzerTestOneInput: reads the input as text by `act`.
template <class Act>
int hold(const uint8_t* data, size_t size, const Act& act) {
  constexpr size_t kMostBytes = 2500;  // of a message
  try {
    act(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const UserError& error) {
    const std::string message = error.what();
    const bool is_line = !message.empty() && message.find('\n') == std::string::npos;
    if (!is_line || message.size() > kMostBytes) found("not one short line: " + message);
  }
  return 0;
}

}  // namespace longbow::fuzz

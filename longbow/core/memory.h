#pragma once
#include <string>

namespace longbow {

// Bytes that this process may still take: what the system can spare, swap included, or what its
// control groups leave, if that is less. Infinite where nothing is known. `root` is for tests.
double available_memory(const std::string& root = "");

}  // namespace longbow

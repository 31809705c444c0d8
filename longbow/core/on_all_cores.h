#pragma once
#include <cstdint>
#include <functional>

namespace longbow {

// Calls each(0) … each(count - 1), each once, on as many threads as the machine has cores (or as
// `threads` says), this one among them. When calls throw, the rest is left out, and the exception
// of the smallest number is thrown again.
void on_all_cores(int64_t count, const std::function<void(int64_t)>& each, int64_t threads = 0);

}  // namespace longbow

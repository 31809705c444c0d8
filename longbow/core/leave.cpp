#include "longbow/core/leave.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

// There where a program is built with the sanitizer that looks for leaks.
extern "C" __attribute__((weak)) void __lsan_do_leak_check();

namespace longbow {

void leave(int status) {
  if (__lsan_do_leak_check) std::exit(status);
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace longbow

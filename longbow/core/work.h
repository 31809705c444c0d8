#pragma once
// A long part of a command, such as data that is made or an evaluation: it shows how far it is, and
// it ends where a signal asks for that.
#include <cstdint>
#include <string>

#include "longbow/core/log.h"

namespace longbow {

void show_work(ProgressStyle style);  // off until a program asks for it

class Work {
 public:
  Work(std::string label, int64_t total);
  // Shown once the work has taken a while. Throws Interrupted when a signal has been noted.
  void reached(int64_t count);

 private:
  Progress progress_;
};

}  // namespace longbow

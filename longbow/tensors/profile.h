#pragma once
// Where the time of a computation goes.
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace longbow {

void wait_for(c10::Device device);

struct Profile {
  struct Part {
    std::string name;
    double milliseconds = 0;
    int64_t count = 0;
  };
  std::vector<Part> parts;  // on a GPU kernels, on a CPU operators without those they call
  double milliseconds = 0;  // from the first to the end of the last
  double busy = 0;          // fraction of this time in which one of them runs
  std::map<std::string, int64_t> runtime_calls;  // of CUDA, with the one that waits for the end

  // A line for the time, then one for each kind of call and for the parts that take longest.
  std::string text(size_t most = 12) const;
};

// Parts are sorted by time, the longest first.
Profile profile(const std::function<void()>& body, c10::Device device);

}  // namespace longbow

#pragma once
// What a machine can do, measured: the rates that a bench compares with.
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <functional>

namespace longbow::cli {

// Seconds of the clock, and of all threads; on a GPU the clock's for both, after all work is done.
struct Seconds {
  double clock = 0, processor = 0;
};
Seconds timed(const std::function<void()>& body, c10::Device device);

struct Peaks {
  double operations = 0;  // per second, of a product of large square matrices
  double bytes = 0;       // per second, read and written by a copy that no cache holds
};
Peaks measured_peaks(c10::Device device, c10::ScalarType type);

}  // namespace longbow::cli

#pragma once
// Time and calls of work on a device.
#include <c10/core/Device.h>

#include <functional>

namespace longbow {

void wait_for(c10::Device device);

// Calls of the CUDA runtime by name, with the one that waits for the end; the kernels that take
// longest; and how much of the time between the first kernel and the last one some kernel runs.
void print_profile(const std::function<void()>& body, c10::Device device);

}  // namespace longbow

#pragma once
// What a computation costs: bytes and operations, counted rather than timed, so the same on every
// run.
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace longbow {

struct Usage {
  int64_t allocated_bytes = 0;  // sum of all allocations, freed or not
  int64_t peak_bytes = 0;       // the most that lived at once, above what lived before
  double operations = 0;   // multiplications and additions of products, elements of everything else
  int64_t launches = 0;    // operators that compute and call no other: on a GPU, kernels or a few
  double moved_bytes = 0;  // of the tensors that these read and write
};

// Runs the body and counts the memory of `device`, and the operations that this thread starts on
// any device (its backward passes included). Measurements do not nest.
Usage measure(const std::function<void()>& body, c10::Device device = c10::kCPU);

}  // namespace longbow

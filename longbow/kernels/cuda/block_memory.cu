#include "longbow/kernels/block_memory.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {

int64_t block_memory_cuda() noexcept {
  return most_dynamic_memory();
}

}  // namespace longbow::kernels

#pragma once
#include <cstdint>

namespace longbow::kernels {

// Bytes of memory that a block may have on the GPU in use.
int64_t block_memory_cuda() noexcept;

}  // namespace longbow::kernels

#pragma once
#include <ATen/core/Tensor.h>

namespace longbow {

// Bytes of memory that a block of threads may have on the GPU that holds x; 0 elsewhere.
int64_t block_memory(const at::Tensor& x);

}  // namespace longbow

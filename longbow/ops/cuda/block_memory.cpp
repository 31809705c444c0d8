#include "longbow/ops/block_memory.h"

#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "longbow/kernels/block_memory.h"

namespace longbow {
namespace {

int64_t on_cuda(const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(x.device());
  return kernels::block_memory_cuda();
}

TORCH_LIBRARY_IMPL(longbow, CUDA, m) {
  m.impl("block_memory", on_cuda);
}

}  // namespace
}  // namespace longbow

#include <cuda_runtime.h>

#include "longbow/kernels/philox.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

__global__ void fill_uniform(PhiloxUniform task) {
  const int64_t i = 4 * (blockIdx.x * int64_t{blockDim.x} + threadIdx.x);
  if (i >= task.count) return;
  const auto block = philox_site(task.key[0], task.key[1], task.site, (task.first + i) / 4);
  for (int64_t j = 0; j < 4 && i + j < task.count; ++j)
    task.out[i + j] = philox_unit(block.word[j]);
}

}  // namespace

void philox_uniform_cuda(const PhiloxUniform& task, void* stream) noexcept {
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (task.count + 4 * kThreads - 1) / (4 * kThreads);
  fill_uniform<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      task);
}

}  // namespace longbow::kernels

#include "longbow/kernels/cuda/device.h"
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

// One thread for each block that a row of the window touches: at most columns / 4 + 2 of them.
__global__ void fill_window(PhiloxWindow task, int64_t blocks_in_row) {
  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  const int64_t line = thread / blocks_in_row;
  if (line >= task.slabs * task.rows) return;
  const int64_t first = task.first + line / task.rows * task.slab + line % task.rows * task.row;
  const int64_t index = first / 4 + thread % blocks_in_row;
  const auto block = philox_site(task.key[0], task.key[1], task.site, index);
  for (int64_t j = 0; j < 4; ++j) {
    const int64_t column = 4 * index + j - first;
    if (column >= 0 && column < task.columns)
      task.out[line * task.columns + column] = philox_unit(block.word[j]);
  }
}

}  // namespace

void philox_uniform_cuda(const PhiloxUniform& task, void* stream) noexcept {
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (task.count + 4 * kThreads - 1) / (4 * kThreads);
  launch(fill_uniform, static_cast<unsigned>(blocks), kThreads, 0, stream, task);
}

void philox_window_cuda(const PhiloxWindow& task, void* stream) noexcept {
  constexpr int64_t kThreads = 256;
  const int64_t blocks_in_row = task.columns / 4 + 2;
  const int64_t blocks = (task.slabs * task.rows * blocks_in_row + kThreads - 1) / kThreads;
  launch(fill_window, static_cast<unsigned>(blocks), kThreads, 0, stream, task, blocks_in_row);
}

}  // namespace longbow::kernels

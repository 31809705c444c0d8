#include "longbow/kernels/state_token.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kColumns = 32, kParts = 8;

template <class T>
__global__ void __launch_bounds__(kColumns* kParts) token(StateToken task) {
  unsigned char* const shared = dynamic_memory();
  auto* const sums = reinterpret_cast<float*>(shared);  // [8, 32]
  const int64_t inner = task.heads * task.width, columns = inner / task.groups,
                b = blockIdx.y / task.groups, group = blockIdx.y % task.groups;
  const int lane = static_cast<int>(threadIdx.x) % kColumns,
            part = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t column = blockIdx.x * int64_t{kColumns} + lane, channel = group * columns + column;
  const bool there = column < columns;
  const T* const rows = static_cast<const T*>(task.rows) + b * task.rows_batch;
  const T *const keys = rows + inner + group * task.state, *const queries =
                                                               keys + task.groups * task.state;
  const int64_t head = there ? channel / task.width : 0, place = b * task.heads + head;
  const float x = there ? static_cast<float>(rows[channel]) : 0, value = task.step[place] * x,
              left = expf(task.log_decay[place]);
  float read = 0;
  for (int64_t n = part; there && n < task.state; n += kParts) {
    const int64_t at = ((b * task.groups + group) * task.state + n) * columns + column;
    const float sum =
        (task.before ? left * task.before[at] : 0) + static_cast<float>(keys[n]) * value;
    task.after[at] = sum;
    read += static_cast<float>(queries[n]) * sum;
  }
  sums[threadIdx.x] = read;
  __syncthreads();
  if (part > 0 || !there) return;
  read = task.skip[head] * x;
  for (int i = 0; i < kParts; ++i) read += sums[i * kColumns + lane];
  static_cast<T*>(task.out)[b * inner + channel] = static_cast<T>(read);
}

}  // namespace

void state_token_cuda(const StateToken& task, void* stream) noexcept {
  const int64_t columns = task.heads * task.width / task.groups;
  const dim3 blocks(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
                    static_cast<unsigned>(task.batch * task.groups));
  launch(task.half ? token<__nv_bfloat16> : token<float>, blocks, kColumns * kParts,
         kColumns * kParts * sizeof(float), stream, task);
}

}  // namespace longbow::kernels

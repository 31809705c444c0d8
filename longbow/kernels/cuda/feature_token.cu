#include "longbow/kernels/feature_token.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 288, kAhead = 8;  // rows that are on their way to a thread

template <class T>
__global__ void __launch_bounds__(kThreads, 4) token(FeatureToken task) {
  unsigned char* const shared = dynamic_memory();
  const int features = static_cast<int>(task.features), columns = static_cast<int>(task.width) + 1,
            parts = kThreads / columns, thread = static_cast<int>(threadIdx.x),
            column = thread % columns, part = thread / columns;
  auto* const q = reinterpret_cast<float*>(shared);
  float *const k = q + features, *const reads = k + features;  // [features] twice, [parts, columns]
  const int64_t group = blockIdx.x, b = group / task.heads, h = group % task.heads;
  const auto row_of = [&](const FeatureToken::Rows& rows) {
    return b * rows.batch + h * rows.head;
  };
  const float *const from_q = static_cast<const float*>(task.q.data) + row_of(task.q),
                     *const from_k = static_cast<const float*>(task.k.data) + row_of(task.k);
  float left = 1, added = 1;
  if (task.peak) {
    const float before = task.peak[group],
                own = static_cast<const float*>(task.key_peak.data)[row_of(task.key_peak)],
                most = fmaxf(before, own);
    left = expf(before - most);
    added = expf(own - most);
    if (thread == 0) task.most[group] = most;
  }
  for (int r = thread; r < features; r += kThreads) {
    q[r] = from_q[r];
    k[r] = from_k[r] * added;
  }
  __syncthreads();

  float read = 0;
  if (part < parts) {
    const float value =
        column + 1 < columns
            ? static_cast<float>((static_cast<const T*>(task.v.data) + row_of(task.v))[column])
            : 1;
    const int64_t first = group * features * columns + column;
    for (int r = part; r < features; r += kAhead * parts) {
      float sums[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int row = r + i * parts;
        sums[i] = row < features ? task.before[first + int64_t{row} * columns] : 0;
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int row = r + i * parts;
        if (row >= features) break;
        const float sum = left * sums[i] + k[row] * value;
        task.after[first + int64_t{row} * columns] = sum;
        read += q[row] * sum;
      }
    }
    reads[thread] = read;
  }
  __syncthreads();
  if (thread >= columns) return;
  for (int i = 1; i < parts; ++i) read += reads[i * columns + thread];
  task.out[group * columns + thread] = read;
}

}  // namespace

void feature_token_cuda(const FeatureToken& task, void* stream) noexcept {
  launch(task.half ? token<__nv_bfloat16> : token<float>,
         static_cast<unsigned>(task.batch * task.heads), kThreads,
         sizeof(float) * (2 * static_cast<size_t>(task.features) + kThreads), stream, task);
}

}  // namespace longbow::kernels

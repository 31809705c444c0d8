// A row belongs to one thread: rows are short, and neighbours read what the first one has loaded.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/turned_buckets.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) buckets(TurnedBuckets task) {
  const int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (row >= task.rows) return;
  const float* y = task.y + row * task.columns;
  int64_t bucket = 0, all = 1;
  for (int f = 0; f < task.factors; ++f) {
    const int half = task.factor[f] / 2;
    // Of equal numbers the first one counts: y before -y.
    float high = -INFINITY, low = -INFINITY;
    int of_high = 0, of_low = 0;
    for (int i = 0; i < half; ++i) {
      const float one = y[i];
      if (one > high) {
        high = one;
        of_high = i;
      }
      if (-one > low) {
        low = -one;
        of_low = i;
      }
    }
    bucket += all * (low > high ? half + of_low : of_high);
    all *= task.factor[f];
    y += half;
  }
  task.bucket[row] = bucket;
}

}  // namespace

void turned_buckets_cuda(const TurnedBuckets& task, void* stream) noexcept {
  const auto blocks = static_cast<unsigned>((task.rows + kThreads - 1) / kThreads);
  launch(buckets, blocks, kThreads, 0, stream, task);
}

}  // namespace longbow::kernels

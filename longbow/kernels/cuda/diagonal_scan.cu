// A thread takes a mode over a chunk: once for what the chunk leaves behind, and again when what
// all chunks before have left is known.
#include "longbow/kernels/diagonal_scan.h"

#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int64_t kThreads = 256;

__device__ float2 times(float2 a, float2 b) {
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
__device__ float2 plus(float2 a, float2 b) {
  return {a.x + b.x, a.y + b.y};
}
__device__ float2 pair(const float* from, int64_t at) {
  return {from[2 * at], from[2 * at + 1]};
}
__device__ void store(float* to, int64_t at, float2 x) {
  to[2 * at] = x.x;
  to[2 * at + 1] = x.y;
}

__host__ __device__ int64_t chunks_of(const DiagonalScans& task) {
  return (task.length + kScanChunk - 1) / kScanChunk;
}

// A mode in a chunk of a sequence; times run in the direction of the scan.
struct Place {
  int64_t lane, chunk, mode, first, end;
  bool there;

  __device__ explicit Place(const DiagonalScans& task) {
    const int64_t i = blockIdx.x * kThreads + threadIdx.x, each = chunks_of(task) * task.modes;
    lane = i / each;
    chunk = i % each / task.modes;
    mode = i % task.modes;
    first = chunk * kScanChunk;
    end = first + kScanChunk < task.length ? first + kScanChunk : task.length;
    there = lane < task.batch;
  }
  __device__ int64_t at(const DiagonalScans& task, int64_t time) const {
    const int64_t token = task.reversed ? task.length - 1 - time : time;
    return (lane * task.length + token) * task.modes + mode;
  }
  __device__ int64_t in_chunks(const DiagonalScans& task) const {
    return (lane * chunks_of(task) + chunk) * task.modes + mode;
  }
};

__global__ void __launch_bounds__(kThreads) leave(DiagonalScans task) {
  const Place place(task);
  if (!place.there) return;
  const float2 factor = pair(task.factors, place.mode);
  float2 x = {0, 0};
  for (int64_t t = place.first; t < place.end; ++t)
    x = plus(times(factor, x), pair(task.b, place.at(task, t)));
  store(task.starts, place.in_chunks(task), x);
}

__global__ void __launch_bounds__(kThreads) carry(DiagonalScans task) {
  const int64_t i = blockIdx.x * kThreads + threadIdx.x, chunks = chunks_of(task);
  if (i >= task.batch * task.modes) return;
  const int64_t mode = i % task.modes, first = i / task.modes * chunks * task.modes + mode;
  float2 factor = pair(task.factors, mode), found = {0, 0};
  for (int64_t size = 1; size < kScanChunk; size *= 2) factor = times(factor, factor);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t at = first + chunk * task.modes;
    const float2 left = pair(task.starts, at);
    store(task.starts, at, found);
    found = plus(left, times(factor, found));
  }
}

__global__ void __launch_bounds__(kThreads) finish(DiagonalScans task) {
  const Place place(task);
  if (!place.there) return;
  const float2 factor = pair(task.factors, place.mode);
  float2 x = pair(task.starts, place.in_chunks(task)), sum = {0, 0};
  for (int64_t t = place.first; t < place.end; ++t) {
    x = plus(times(factor, x), pair(task.b, place.at(task, t)));
    store(task.out, place.at(task, t), x);
    if (!task.others || t + 1 >= task.length) continue;
    const float2 other = pair(task.others, place.at(task, t + 1));
    sum = plus(sum, times({other.x, -other.y}, x));
  }
  if (task.others) store(task.products, place.in_chunks(task), sum);
}

}  // namespace

void diagonal_scans_cuda(const DiagonalScans& task, void* stream) noexcept {
  const auto blocks = [](int64_t threads) {
    return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  };
  const unsigned all = blocks(task.batch * chunks_of(task) * task.modes);
  launch(leave, all, kThreads, 0, stream, task);
  launch(carry, blocks(task.batch * task.modes), kThreads, 0, stream, task);
  launch(finish, all, kThreads, 0, stream, task);
}

}  // namespace longbow::kernels

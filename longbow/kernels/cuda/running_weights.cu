// A thread has two neighbouring channels of a chunk. Chunks are summed up by themselves; then each
// adds up the sums of those before it, or behind it, and is met once more.
#include "longbow/kernels/running_weights.h"

#include "longbow/kernels/cuda/mma.h"

namespace longbow::kernels {
namespace {

using Number = __nv_bfloat16;

constexpr int kThreads = 64, kAhead = 16;  // tokens that are on their way to a thread

struct Place {
  int64_t b, chunk, c, first;
  int count;  // tokens

  __device__ explicit Place(const RunningWeights& task)
      : b(blockIdx.z),
        chunk(blockIdx.y),
        c((blockIdx.x * int64_t{kThreads} + threadIdx.x) * 2),
        first(chunk * task.chunk) {
    const int64_t left = task.tokens - first;
    count = static_cast<int>(left < task.chunk ? left : task.chunk);
  }
  __device__ float2* sums(const RunningWeights& task, int64_t of) const {
    return reinterpret_cast<float2*>(task.chunk_sums + (b * task.chunks + of) * task.channels + c);
  }
};

// Two channels of some tokens from `first` on; zeros behind the last and before the first.
struct Rows {
  uint32_t two[kAhead];

  __device__ void load(const TokenRows<const void*>& from, const Place& at, int first) {
    const auto* data = static_cast<const Number*>(from.data) + at.b * from.batch +
                       (at.first + first) * from.token + at.c;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool there = first + i >= 0 && first + i < at.count;
      two[i] = there ? *reinterpret_cast<const uint32_t*>(data + i * from.token) : 0;
    }
  }
  __device__ float2 get(int i) const {
    return mma::unpack<Number>(two[i]);
  }
};
__device__ void store(const TokenRows<void*>& to, const Place& at, int i, const float2& x) {
  auto* data = static_cast<Number*>(to.data) + at.b * to.batch + (at.first + i) * to.token + at.c;
  *reinterpret_cast<uint32_t*>(data) = mma::pack<Number>(x.x, x.y);
}

__device__ bool kept(const RunningWeights& task, const Place& at, int i) {
  return i >= 0 && i < at.count && (!task.keep || task.keep[at.b * task.tokens + at.first + i]);
}
// NaN stays NaN.
__device__ float weight(float logit, float clip) {
  return __expf(logit < -clip ? -clip : logit > clip ? clip : logit);
}
// As they are stored.
__device__ float2 weights_of(const RunningWeights& task, const float2& logits, bool there) {
  if (!there) return {0, 0};
  return mma::unpack<Number>(
      mma::pack<Number>(weight(logits.x, task.clip), weight(logits.y, task.clip)));
}
__device__ void add(float2& sum, const float2& x) {
  sum.x += x.x;
  sum.y += x.y;
}

template <bool kBackward>
__global__ void __launch_bounds__(kThreads) sum_up(RunningWeights task) {
  const Place at(task);
  if (at.c >= task.channels) return;
  float2 sum = {0, 0};
  for (int first = 0; first < at.count; first += kAhead) {
    Rows rows;
    rows.load(kBackward ? task.dsums : task.logits, at, first);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      add(sum, kBackward ? rows.get(i) : weights_of(task, rows.get(i), kept(task, at, first + i)));
  }
  *at.sums(task, at.chunk) = sum;
}

// Of the chunks from `first` up to `end`.
__device__ float2 total(const RunningWeights& task, const Place& at, int64_t first, int64_t end) {
  float2 sum = {0, 0};
#pragma unroll 8
  for (int64_t chunk = first; chunk < end; ++chunk) add(sum, *at.sums(task, chunk));
  return sum;
}

__global__ void __launch_bounds__(kThreads) forward(RunningWeights task) {
  const Place at(task);
  if (at.c >= task.channels) return;
  float2 sum = total(task, at, 0, at.chunk);
  for (int first = 0; first < at.count; first += kAhead) {
    Rows logits;
    logits.load(task.logits, at, first);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= at.count) break;
      const float2 w = weights_of(task, logits.get(i), kept(task, at, first + i));
      add(sum, w);
      store(task.weights, at, first + i, w);
      store(task.sums, at, first + i, sum);
    }
  }
}

__global__ void __launch_bounds__(kThreads) backward(RunningWeights task) {
  const Place at(task);
  if (at.c >= task.channels) return;
  float2 sum = total(task, at, at.chunk + 1, task.chunks);
  const auto slope = [&](float logit, float gradient) {
    return fabsf(logit) > task.clip ? 0 : weight(logit, task.clip) * gradient;
  };
  for (int first = at.count - kAhead; first > -kAhead; first -= kAhead) {
    Rows logits, dsums, dweights[2];
    logits.load(task.logits, at, first);
    dsums.load(task.dsums, at, first);
    dweights[0].load(task.dweights[0], at, first);
    dweights[1].load(task.dweights[1], at, first);
#pragma unroll
    for (int i = kAhead - 1; i >= 0; --i) {
      if (first + i < 0) continue;
      add(sum, dsums.get(i));
      float2 all = sum;
      add(all, dweights[0].get(i));
      add(all, dweights[1].get(i));
      const float2 a = logits.get(i);
      const bool there = kept(task, at, first + i);
      store(task.dlogits, at, first + i,
            {there ? slope(a.x, all.x) : 0, there ? slope(a.y, all.y) : 0});
    }
  }
}

dim3 blocks_of(const RunningWeights& task) {
  return {static_cast<unsigned>((task.channels + 2 * kThreads - 1) / (2 * kThreads)),
          static_cast<unsigned>(task.chunks), static_cast<unsigned>(task.batch)};
}

}  // namespace

void running_weights_cuda(const RunningWeights& task, void* stream) noexcept {
  launch(sum_up<false>, blocks_of(task), kThreads, 0, stream, task);
  launch(forward, blocks_of(task), kThreads, 0, stream, task);
}

void running_weights_backward_cuda(const RunningWeights& task, void* stream) noexcept {
  launch(sum_up<true>, blocks_of(task), kThreads, 0, stream, task);
  launch(backward, blocks_of(task), kThreads, 0, stream, task);
}

}  // namespace longbow::kernels

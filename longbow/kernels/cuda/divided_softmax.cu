// A row belongs to 1 to 32 neighbouring threads of a warp, eight numbers to each. Rows of the heads
// of a token follow each other, as they do in memory.
#include "longbow/kernels/divided_softmax.h"

#include "longbow/kernels/cuda/eight.h"

namespace longbow::kernels {
namespace {

using Number = __nv_bfloat16;

constexpr int kThreads = 256, kPack = 8;

// Where the numbers of this thread stand.
struct Place {
  int64_t b, h, n, r;
  template <class Rows>
  __device__ int64_t in(const Rows& rows) const {
    return b * rows.batch + h * rows.head + n * rows.token;
  }
};

__device__ void load(float (&to)[kPack], const HeadRows& rows, const Place& at) {
  const Eight all = read(static_cast<const Number*>(rows.data) + at.in(rows) + at.r);
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = all.value[i];
}
__device__ void store(const HeadResults& rows, const Place& at, const float (&from)[kPack]) {
  Eight all;
#pragma unroll
  for (int i = 0; i < kPack; ++i) all.value[i] = from[i];
  write(static_cast<Number*>(rows.data) + at.in(rows) + at.r, all);
}
__device__ void load_divisor(float (&to)[kPack], const DividedSoftmax& task, const Place& at) {
  const int64_t row = at.in(task.divisor), step = task.single ? 0 : 1,
                first = task.single ? row : row + at.r;
  if (!task.divisor.data) {
    for (float& number : to) number = 1;
  } else if (task.wide) {
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      to[i] = static_cast<const float*>(task.divisor.data)[first + i * step];
  } else if (task.single) {
    const float one = static_cast<float>(static_cast<const Number*>(task.divisor.data)[row]);
    for (float& number : to) number = one;
  } else {
    load(to, task.divisor, at);
  }
}

template <int kLanes, class F>
__device__ float over_lanes(float x, const F& both) {
#pragma unroll
  for (int far = kLanes / 2; far > 0; far /= 2) x = both(x, __shfl_xor_sync(0xffffffffu, x, far));
  return x;
}
template <int kLanes>
__device__ float sum_of(float x) {
  return over_lanes<kLanes>(x, [](float a, float b) { return a + b; });
}

// Threads without a row, or behind its end, take part in the sums with nothing.
template <int kLanes>
__global__ void __launch_bounds__(kThreads) weigh(DividedSoftmax task) {
  const int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / kLanes,
                rows = task.batch * task.tokens * task.heads, token = row / task.heads;
  const Place at = {token / task.tokens, row % task.heads, token % task.tokens,
                    static_cast<int64_t>(threadIdx.x % kLanes) * kPack};
  const bool there = row < rows && at.r < task.width;
  float s[kPack], n[kPack], g[kPack] = {}, w[kPack], largest = -INFINITY, sum = 0;
  if (there) {
    load(s, task.scores, at);
    load_divisor(n, task, at);
    if (task.gradient.data) load(g, task.gradient, at);
  }
  bool divided[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    divided[i] = there && !(n[i] < task.least);  // of what is no number too
    n[i] = there ? 1 / (divided[i] ? n[i] : task.least) : 1;
    s[i] = there ? s[i] * task.scale * n[i] : -INFINITY;
    largest = fmaxf(largest, s[i]);
  }
  largest = over_lanes<kLanes>(largest, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum += w[i] = there ? __expf(s[i] - largest) : 0;
  const float factor = 1 / sum_of<kLanes>(sum);
#pragma unroll
  for (int i = 0; i < kPack; ++i) w[i] *= factor;
  if (!task.gradient.data) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) w[i] *= n[i];
    if (there) store(task.out, at, w);
    return;
  }
  float delta = 0;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    g[i] *= n[i];  // the gradient of p
    delta += w[i] * g[i];
  }
  delta = sum_of<kLanes>(delta);
  float dn[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float slope = w[i] * (g[i] - delta);  // of s / n
    dn[i] = divided[i] ? -(slope * s[i] + g[i] * w[i]) * n[i] : 0;
    g[i] = slope * task.scale * n[i];
  }
  if (!there) return;
  store(task.out, at, g);
  if (task.ddivisor.data) store(task.ddivisor, at, dn);
}

template <int kLanes>
void start(const DividedSoftmax& task, void* stream) {
  const int64_t threads = task.batch * task.heads * task.tokens * kLanes;
  launch(weigh<kLanes>, static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
         stream, task);
}

}  // namespace

void divided_softmax_cuda(const DividedSoftmax& task, void* stream) noexcept {
  const int64_t packs = task.width / kPack;
  if (packs <= 1) return start<1>(task, stream);
  if (packs <= 2) return start<2>(task, stream);
  if (packs <= 4) return start<4>(task, stream);
  if (packs <= 8) return start<8>(task, stream);
  if (packs <= 16) return start<16>(task, stream);
  start<32>(task, stream);
}

}  // namespace longbow::kernels

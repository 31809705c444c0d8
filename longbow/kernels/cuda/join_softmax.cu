// A row belongs to a group of 1 to 32 threads of a warp, each of which has 8 of its numbers. Rows
// of the heads of one token follow each other, as they mostly do in memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/join_softmax.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

struct Eight {
  float value[8];
};
template <class T>
__device__ Eight read(const T* from) {
  const auto four = *reinterpret_cast<const uint4*>(from);
  const float2 a = mma::unpack<T>(four.x), b = mma::unpack<T>(four.y), c = mma::unpack<T>(four.z),
               d = mma::unpack<T>(four.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}
template <class T>
__device__ void write(T* to, const Eight& x) {
  *reinterpret_cast<uint4*>(to) = {
      mma::pack<T>(x.value[0], x.value[1]), mma::pack<T>(x.value[2], x.value[3]),
      mma::pack<T>(x.value[4], x.value[5]), mma::pack<T>(x.value[6], x.value[7])};
}

// Where a thread stands: its row, the first of its numbers, and whether they exist.
struct Place {
  int64_t batch, head, token, sum;  // sum: the row in [B, H, tokens]
  int column;
  bool there;

  __device__ Place(const JoinSoftmax& task, int lanes) {
    const int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / lanes;
    head = row % task.heads;
    token = row / task.heads % task.tokens;
    batch = row / task.heads / task.tokens;
    sum = (batch * task.heads + head) * task.tokens + token;
    column = static_cast<int>(threadIdx.x) % lanes * 8;
    there = batch < task.batch && column < task.width;
  }
  template <class T>
  __device__ const T* in(const HeadRows& x) const {
    return static_cast<const T*>(x.data) + offset(x);
  }
  template <class T>
  __device__ T* in(const HeadResults& x) const {
    return static_cast<T*>(x.data) + offset(x);
  }

 private:
  template <class Rows>
  __device__ int64_t offset(const Rows& x) const {
    return batch * x.batch + head * x.head + token * x.token + column;
  }
};

// The shares of both parts; both are zero where neither saw anything.
struct Shares {
  float a, b, log_sum;
  __device__ Shares(float log_a, float log_b) {
    const float top = fmaxf(log_a, log_b);
    if (top == -INFINITY) {
      a = b = 0;
      log_sum = top;
      return;
    }
    a = expf(log_a - top);
    b = expf(log_b - top);
    log_sum = top + logf(a + b);
    const float all = a + b;
    a /= all;
    b /= all;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) join(JoinSoftmax task, int lanes) {
  const Place place(task, lanes);
  if (!place.there) return;
  const Shares share(task.log_a[place.sum], task.log_b[place.sum]);
  const auto a = read(place.in<T>(task.a)), b = read(place.in<T>(task.b));
  Eight y;
#pragma unroll
  for (int i = 0; i < 8; ++i) y.value[i] = share.a * a.value[i] + share.b * b.value[i];
  write(place.in<T>(task.out), y);
  if (place.column == 0) task.log_sum[place.sum] = share.log_sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads) join_backward(JoinSoftmaxBackward all, int lanes) {
  const auto& task = all.past;
  const Place place(task, lanes);
  float of_a = 0, of_b = 0;  // dout with each part
  Shares share(-INFINITY, -INFINITY);
  if (place.there) {
    share = Shares(task.log_a[place.sum], task.log_b[place.sum]);
    const auto a = read(place.in<T>(task.a)), b = read(place.in<T>(task.b)),
               g = read(place.in<T>(all.dout));
    Eight da, db;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      of_a += g.value[i] * a.value[i];
      of_b += g.value[i] * b.value[i];
      da.value[i] = share.a * g.value[i];
      db.value[i] = share.b * g.value[i];
    }
    write(place.in<T>(all.da), da);
    write(place.in<T>(all.db), db);
  }
  for (int far = lanes / 2; far > 0; far /= 2) {
    of_a += __shfl_xor_sync(0xffffffffu, of_a, far);
    of_b += __shfl_xor_sync(0xffffffffu, of_b, far);
  }
  if (!place.there || place.column > 0) return;
  const float shift = all.dlog_sum[place.sum] - share.a * of_a - share.b * of_b;
  all.dlog_a[place.sum] = share.a * (of_a + shift);
  all.dlog_b[place.sum] = share.b * (of_b + shift);
}

// Threads of a row, a power of two, and how many blocks all rows need.
struct Grid {
  int lanes = 1;
  unsigned blocks;
  explicit Grid(const JoinSoftmax& task) {
    while (lanes * 8 < task.width) lanes *= 2;
    const int64_t threads = task.batch * task.heads * task.tokens * lanes;
    blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  }
};

}  // namespace

void join_softmax_cuda(const JoinSoftmax& task, void* stream) noexcept {
  const Grid grid(task);
  const auto on = static_cast<cudaStream_t>(stream);
  if (task.type == Element::bfloat16)
    join<__nv_bfloat16><<<grid.blocks, kThreads, 0, on>>>(task, grid.lanes);
  else
    join<__half><<<grid.blocks, kThreads, 0, on>>>(task, grid.lanes);
}

void join_softmax_backward_cuda(const JoinSoftmaxBackward& task, void* stream) noexcept {
  const Grid grid(task.past);
  const auto on = static_cast<cudaStream_t>(stream);
  if (task.past.type == Element::bfloat16)
    join_backward<__nv_bfloat16><<<grid.blocks, kThreads, 0, on>>>(task, grid.lanes);
  else
    join_backward<__half><<<grid.blocks, kThreads, 0, on>>>(task, grid.lanes);
}

}  // namespace longbow::kernels

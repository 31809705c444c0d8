// A row belongs to a group of 1 to 32 threads of a warp, each of which has 8 of its numbers. Rows
// of the heads of one token follow each other, as they mostly do in memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/join_softmax.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256;

// Where a thread stands: its row, the first of its numbers, and whether they exist.
struct Place {
  int64_t batch, head, token;
  int column;
  bool there;

  __device__ Place(const JoinSoftmax& task, int64_t tokens, int lanes) {
    const int64_t row = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / lanes;
    head = row % task.heads;
    token = row / task.heads % tokens;
    batch = row / task.heads / tokens;
    column = static_cast<int>(threadIdx.x) % lanes * 8;
    there = batch < task.batch && column < task.width;
  }
  // The place of a token in [B, H, tokens], whose heads stand a stride apart.
  __device__ int64_t sum(const JoinSoftmax& task, int64_t stride, int64_t one) const {
    return (batch * task.heads + head) * stride + one;
  }
  template <class T>
  __device__ const T* in(const HeadRows& x, int64_t one) const {
    return static_cast<const T*>(x.data) + offset(x, one);
  }
  template <class T>
  __device__ T* in(const HeadResults& x, int64_t one) const {
    return static_cast<T*>(x.data) + offset(x, one);
  }

 private:
  template <class Rows>
  __device__ int64_t offset(const Rows& x, int64_t one) const {
    return batch * x.batch + head * x.head + one * x.token + column;
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
  const Place place(task, task.tokens, lanes);
  if (!place.there) return;
  const int64_t token = place.token, other = token / task.spread;
  const int64_t sum = place.sum(task, task.tokens, token);
  const Shares share(task.log_a[place.sum(task, task.log_a_stride, token)],
                     task.log_b[place.sum(task, task.log_b_stride, other)]);
  const auto a = read(place.in<T>(task.a, token)), b = read(place.in<T>(task.b, other));
  Eight y;
#pragma unroll
  for (int i = 0; i < 8; ++i) y.value[i] = share.a * a.value[i] + share.b * b.value[i];
  write(place.in<T>(task.out, token), y);
  if (place.column == 0) task.log_sum[sum] = share.log_sum;
}

// A thread has a row of b, and with it all rows of a that meet it.
template <class T>
__global__ void __launch_bounds__(kThreads) join_backward(JoinSoftmaxBackward all, int lanes) {
  const auto& task = all.past;
  const Place place(task, task.other_tokens, lanes);
  const int64_t other = place.token, other_sum = place.sum(task, task.other_tokens, other);
  float log_b = -INFINITY, dlog_b = 0;
  Eight b = {}, db = {};
  if (place.there) {
    log_b = task.log_b[place.sum(task, task.log_b_stride, other)];
    b = read(place.in<T>(task.b, other));
  }
  for (int64_t token = other * task.spread; token < (other + 1) * task.spread; ++token) {
    const bool there = place.there && token < task.tokens;
    const int64_t sum = place.sum(task, task.tokens, token);
    float of_a = 0, of_b = 0;  // dout with each part
    Shares share(-INFINITY, -INFINITY);
    if (there) {
      share = Shares(task.log_a[place.sum(task, task.log_a_stride, token)], log_b);
      const auto a = read(place.in<T>(task.a, token)), g = read(place.in<T>(all.dout, token));
      Eight da;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        of_a += g.value[i] * a.value[i];
        of_b += g.value[i] * b.value[i];
        da.value[i] = share.a * g.value[i];
        db.value[i] += share.b * g.value[i];
      }
      write(place.in<T>(all.da, token), da);
    }
    for (int far = lanes / 2; far > 0; far /= 2) {
      of_a += __shfl_xor_sync(0xffffffffu, of_a, far);
      of_b += __shfl_xor_sync(0xffffffffu, of_b, far);
    }
    if (!there || place.column > 0) continue;
    const float shift = all.dlog_sum[sum] - share.a * of_a - share.b * of_b;
    all.dlog_a[sum] = share.a * (of_a + shift);
    dlog_b += share.b * (of_b + shift);
  }
  if (!place.there) return;
  write(place.in<T>(all.db, other), db);
  if (place.column == 0) all.dlog_b[other_sum] = dlog_b;
}

// Threads of a row, a power of two, and how many blocks all rows need.
struct Grid {
  int lanes = 1;
  unsigned blocks;
  Grid(const JoinSoftmax& task, int64_t tokens) {
    while (lanes * 8 < task.width) lanes *= 2;
    const int64_t threads = task.batch * task.heads * tokens * lanes;
    blocks = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  }
};

}  // namespace

void join_softmax_cuda(const JoinSoftmax& task, void* stream) noexcept {
  const Grid grid(task, task.tokens);
  if (task.type == Element::bfloat16)
    launch(join<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(join<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

void join_softmax_backward_cuda(const JoinSoftmaxBackward& task, void* stream) noexcept {
  const Grid grid(task.past, task.past.other_tokens);
  if (task.past.type == Element::bfloat16)
    launch(join_backward<__nv_bfloat16>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
  else
    launch(join_backward<__half>, grid.blocks, kThreads, 0, stream, task, grid.lanes);
}

}  // namespace longbow::kernels

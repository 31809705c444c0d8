// Few queries stay in shared memory while the keys of a head pass by, 64 at a time. Forward, 16
// queries belong to a warp; where there are fewer than 64, several warps share them and each reads
// a part of every tile; where there are more, another thread block has them. Parts are joined by a
// second kernel, in one order. Backward, 16 keys belong to a warp: with g = dout and w formed again
// from the logarithms of the sums,
//   ds_rj = w_rj (g_r . v_j - delta_r),   dk_j = sum_r ds_rj q_r,   dv_j = sum_r w_rj g_r,
//   dq_r = sum_j ds_rj k_j,
// the last of which the warps share out by slots. A thread block has all queries there, in turn
// where they are more than 64.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/slot_tiles.h"
#include "longbow/kernels/exponent.h"
#include "longbow/kernels/head_span.h"
#include "longbow/kernels/pack_softmax.h"

namespace longbow::kernels {
namespace {

using namespace slots;

// Tiles of keys and values that are copied one ahead, and what is added to the scores of each key.
template <class T>
struct Passing {
  const PackSoftmax& task;
  const HeadSpan& span;
  T *keys, *values;  // two buffers each
  float (&added)[2][kTile];

  __device__ __forceinline__ void load(int first, int buffer) const {
    if (first < span.end) {
      const bool* keep = task.keep ? task.keep + span.batch * task.keys : nullptr;
      const auto token = [&](int row) { return first + row < span.end ? first + row : -1; };
      load_rows<kWidth>(keys + buffer * kBuffer, span.rows<T>(task.k), task.k.token, kTile,
                        static_cast<int>(task.width), token);
      load_rows<kWidth>(values + buffer * kBuffer, span.rows<T>(task.v), task.v.token, kTile,
                        static_cast<int>(task.value_width), token);
      for (int row = static_cast<int>(threadIdx.x); row < kTile; row += kThreads)
        added[buffer][row] = token(row) >= 0 && (!keep || keep[token(row)]) ? 0.0f : -INFINITY;
    }
    mma::commit_copies();
  }
};

template <class T, int kSlots>
__global__ void __launch_bounds__(kThreads) read_parts(PackSoftmax task) {
  constexpr int kRowTiles = kSlots / 16, kParts = kWarps / kRowTiles, kKeys = kTile / kParts;
  const HeadSpan span(task.heads, task.keys, task.span);
  unsigned char* const memory = dynamic_memory();
  __shared__ float added[2][kTile];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const keys = queries + kSlots * kStride;  // two buffers
  T* const values = keys + 2 * kBuffer;        // two buffers
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int slot = warp % kRowTiles * 16, part = warp / kRowTiles, own = part * kKeys;
  const Passing<T> passing = {task, span, keys, values, added};
  const auto others = static_cast<int>(blockIdx.z) * kSlots;  // queries before those of this block
  load_slots<kSlots>(queries, span.rows<T>(task.q) + others * task.q.token, task.q.token,
                     task.slots - others, task.width);
  passing.load(span.first, 0);
  mma::A q[1][kWidth / 16];
  mma::C sum[1][kWidth / 8] = {};
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    passing.load(first + kTile, buffer ^ 1);
    if (first == span.first) load_left(q, queries + slot * kStride);
    mma::C s[1][kKeys / 8] = {};
    add_products<T>(s, q, keys + buffer * kBuffer + own * kStride);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float largest = top[i];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& one = s[0][n].part[2 * i + j];
          one = one * kLog2E + added[buffer][own + n * 8 + 2 * t + j];
          largest = fmaxf(largest, one);
        }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      const float shift = largest == -INFINITY ? 0 : largest;
      const float shrunk = mma::power_of_two(top[i] - shift);
      top[i] = largest;
      total[i] *= shrunk;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& one = s[0][n].part[2 * i + j];
          one = mma::power_of_two(one - shift);
          total[i] += one;
        }
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        sum[0][n].part[2 * i] *= shrunk;
        sum[0][n].part[2 * i + 1] *= shrunk;
      }
    }
    add_slots<T>(sum, s, values + buffer * kBuffer + own * kStride);
  }
  mma::await_copies<0>();
  const int64_t place =
      ((blockIdx.y * kParts + part) * task.batch * task.heads + span.both) * task.slots;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float all = total[i];
    all += __shfl_xor_sync(0xffffffffu, all, 1);
    all += __shfl_xor_sync(0xffffffffu, all, 2);
    const int row = others + slot + i * 8 + g;
    if (row >= task.slots) continue;
    const float factor = all > 0 ? 1 / all : 0;
    if (t == 0) task.log_sums[place + row] = all > 0 ? top[i] * kLn2 + logf(all) : -INFINITY;
    float* mean = task.means + (place + row) * task.value_width;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      if (n * 8 >= task.value_width) break;
      mean[n * 8 + 2 * t] = sum[0][n].part[2 * i] * factor;
      mean[n * 8 + 2 * t + 1] = sum[0][n].part[2 * i + 1] * factor;
    }
  }
}

// A thread block for each query of each head, a thread for each channel.
__global__ void join(PackSoftmax task) {
  const int64_t row = blockIdx.x, rows = task.batch * task.heads * task.slots;
  const int column = static_cast<int>(threadIdx.x);
  float top = -INFINITY, total = 0, value = 0;
  for (int64_t p = 0; p < task.parts; ++p) top = fmaxf(top, task.log_sums[p * rows + row]);
  const float shift = top == -INFINITY ? 0 : top;
  for (int64_t p = 0; p < task.parts; ++p) {
    const float weight = mma::power_of_two((task.log_sums[p * rows + row] - shift) * kLog2E);
    total += weight;
    if (column < task.value_width)
      value += weight * task.means[(p * rows + row) * task.value_width + column];
  }
  if (column == 0) task.log_sum[row] = total > 0 ? top + logf(total) : -INFINITY;
  if (column < task.value_width)
    task.mean[row * task.value_width + column] = total > 0 ? value / total : 0;
}

template <class T, int kSlots, int kGroups>
__global__ void __launch_bounds__(kThreads, kGroups == 1 ? 3 : 2)
    differentiate(PackSoftmaxBackward all) {
  constexpr int kLine = mma::padded(kSlots), kAll = kSlots * kGroups;
  const auto& task = all.past;
  const HeadSpan span(task.heads, task.keys, task.span);
  unsigned char* const memory = dynamic_memory();
  __shared__ float added[2][kTile], base[kAll], delta[kAll];
  T* const queries = reinterpret_cast<T*>(memory);
  T* const slopes = queries + kAll * kStride;  // dout
  T* const keys = slopes + kAll * kStride;     // two buffers
  T* const values = keys + 2 * kBuffer;        // two buffers
  T* const changes = values + 2 * kBuffer;     // [kTile, kLine], ds
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  T *dk = span.rows<T>(all.dk), *dv = span.rows<T>(all.dv);
  const Passing<T> passing = {task, span, keys, values, added};
  load_slots<kAll>(queries, span.rows<T>(task.q), task.q.token, task.slots, width);
  load_slots<kAll>(slopes, span.rows<T>(all.dout), all.dout.token, task.slots, value_width);
  for (int r = static_cast<int>(threadIdx.x); r < kAll; r += kThreads) {
    const float log_sum = r < task.slots ? task.log_sum[span.both * task.slots + r] : -INFINITY;
    base[r] = log_sum == -INFINITY ? INFINITY : log_sum * kLog2E;
    delta[r] = r < task.slots ? all.delta[span.both * task.slots + r] : 0;
  }
  passing.load(span.first, 0);
  const Share<kSlots> share;
  mma::C dq[kGroups][Share<kSlots>::kColumns / 8] = {};
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    passing.load(first + kTile, buffer ^ 1);
    T *const key = keys + buffer * kBuffer, *const value = values + buffer * kBuffer;
    mma::C dk_rows[1][kWidth / 8] = {}, dv_rows[1][kWidth / 8] = {};
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int others = group * kSlots;
      {
        mma::A a[1][kWidth / 16];
        mma::C w[1][kSlots / 8] = {}, ds[1][kSlots / 8] = {};
        load_left(a, key + own * kStride);
        add_products<T>(w, a, queries + others * kStride);
        load_left(a, value + own * kStride);
        add_products<T>(ds, a, slopes + others * kStride);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float hidden = added[buffer][own + i * 8 + g];
#pragma unroll
          for (int n = 0; n < kSlots / 8; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              const int slot = others + n * 8 + 2 * t + j;
              float &weight = w[0][n].part[2 * i + j], &slope = ds[0][n].part[2 * i + j];
              weight = mma::power_of_two(weight * kLog2E + hidden - base[slot]);
              slope = weight * (slope - delta[slot]);
            }
        }
        add_slots<T>(dv_rows, w, slopes + others * kStride);
        add_slots<T>(dk_rows, ds, queries + others * kStride);
        show(ds, changes + own * kLine);
      }
      __syncthreads();
      share.add(dq[group], changes, key);
      __syncthreads();
    }
    store_rows<T, kWidth, 1>(dk_rows, key + own * kStride, dk + (first + own) * all.dk.token,
                             all.dk.token, span.end - first - own, width);
    store_rows<T, kWidth, 1>(dv_rows, value + own * kStride, dv + (first + own) * all.dv.token,
                             all.dv.token, span.end - first - own, value_width);
  }
  mma::await_copies<0>();
  float* const sums = all.dq + span.place(task.batch * task.heads) * task.slots * width;
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
    share.store(dq[group], sums + group * kSlots * width, task.slots - group * kSlots, width);
}

dim3 grid_of(const PackSoftmax& task, int64_t groups) {
  return dim3(static_cast<unsigned>(task.batch * task.heads),
              static_cast<unsigned>(spans_of(task.keys, task.span)), static_cast<unsigned>(groups));
}

}  // namespace

void pack_softmax_cuda(const PackSoftmax& task, void* stream) noexcept {
  with_shape(task, [&]<class T, int kSlots>() {
    constexpr int kBytes = sizeof(T) * (kSlots * kStride + 4 * kBuffer);
    launch(read_parts<T, kSlots>, grid_of(task, spans_of(task.slots, kSlots)), kThreads, kBytes,
           stream, task);
    const auto rows = static_cast<unsigned>(task.batch * task.heads * task.slots);
    launch(join, rows, kWidth, 0, stream, task);
  });
}

void pack_softmax_backward_cuda(const PackSoftmaxBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kSlots>() {
    const auto run = [&]<int kGroups>() {
      constexpr int kBytes =
          sizeof(T) * (2 * kGroups * kSlots * kStride + 4 * kBuffer + kTile * mma::padded(kSlots));
      launch(differentiate<T, kSlots, kGroups>, grid_of(task.past, 1), kThreads, kBytes, stream,
             task);
    };
    if (task.past.slots <= kSlots) return run.template operator()<1>();
    if constexpr (kSlots == 64) run.template operator()<2>();
  });
}

}  // namespace longbow::kernels

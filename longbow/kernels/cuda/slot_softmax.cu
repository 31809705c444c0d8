// All keys and values of a head stay in shared memory while its queries pass by, 64 at a time, 16
// to a warp: a row of scores is whole in the registers of four threads, so nothing but the results
// is written. The backward pass forms the weights w again; with g = dout,
//   ds_ir = w_ir (g_i . v_r - sum_r' w_ir' g_i . v_r'),   dq_i = sum_r ds_ir k_r,
//   dk_r = sum_i ds_ir q_i,   dv_r = sum_i w_ir g_i.
// The last two are sums over the queries of a span, which the warps share out by slots; sums of
// spans are added outside, in one order.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/slot_tiles.h"
#include "longbow/kernels/head_span.h"
#include "longbow/kernels/slot_softmax.h"

namespace longbow::kernels {
namespace {

using namespace slots;

// Begins to copy keys and values, and notes what is added to the score of each slot.
template <int kSlots, class T>
__device__ void load_keys(const SlotSoftmax& task, const HeadSpan& span, T* keys, T* values,
                          float* added) {
  load_slots<kSlots>(keys, span.rows<T>(task.k), task.k.token, task.slots, task.width);
  load_slots<kSlots>(values, span.rows<T>(task.v), task.v.token, task.slots, task.value_width);
  const bool* visible = task.visible ? task.visible + span.both * task.slots : nullptr;
  for (int r = static_cast<int>(threadIdx.x); r < kSlots; r += kThreads)
    added[r] = r < task.slots && (!visible || visible[r]) ? 0 : -INFINITY;
}

template <class T, int kSlots>
__global__ void __launch_bounds__(kThreads) attend(SlotSoftmax task) {
  const HeadSpan span(task.heads, task.queries, task.span);
  unsigned char* const memory = dynamic_memory();
  __shared__ float added[kSlots];
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + kSlots * kStride;
  T* const queries = values + kSlots * kStride;  // two buffers
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  const T* q = span.rows<T>(task.q);
  T* out = span.rows<T>(task.out);
  const auto load = [&](int first, int buffer) {
    if (first < span.end)
      load_rows<kWidth>(queries + buffer * kBuffer, q, task.q.token, kTile,
                        static_cast<int>(task.width),
                        [&](int row) { return first + row < span.end ? first + row : -1; });
    mma::commit_copies();
  };
  load_keys<kSlots>(task, span, keys, values, added);
  load(span.first, 0);
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(first + kTile, buffer ^ 1);
    T* const room = queries + buffer * kBuffer + own * kStride;
    mma::A a[1][kWidth / 16];
    load_left(a, room);
    mma::C w[1][kSlots / 8] = {}, sum[1][kWidth / 8] = {};
    add_products<T>(w, a, keys);
    weigh(w, added);
    add_slots<T>(sum, w, values);
    store_rows<T, kWidth, 1>(sum, room, out + (first + own) * task.out.token, task.out.token,
                             span.end - first - own, static_cast<int>(task.value_width));
  }
  mma::await_copies<0>();
}

// ds from w and dp = g . v.
template <int kTiles>
__device__ __forceinline__ void differentiate(mma::C (&dp)[1][kTiles],
                                              const mma::C (&w)[1][kTiles]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float delta = 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) delta += w[0][n].part[2 * i + j] * dp[0][n].part[2 * i + j];
    delta += __shfl_xor_sync(0xffffffffu, delta, 1);
    delta += __shfl_xor_sync(0xffffffffu, delta, 2);
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& one = dp[0][n].part[2 * i + j];
        one = w[0][n].part[2 * i + j] * (one - delta);
      }
  }
}

template <class T, int kSlots>
__global__ void __launch_bounds__(kThreads, 3) differentiate(SlotSoftmaxBackward all) {
  constexpr int kLine = mma::padded(kSlots);
  const auto& task = all.past;
  const HeadSpan span(task.heads, task.queries, task.span);
  unsigned char* const memory = dynamic_memory();
  __shared__ float added[kSlots];
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + kSlots * kStride;
  T* const queries = values + kSlots * kStride;  // two buffers
  T* const slopes = queries + 2 * kBuffer;       // two buffers, dout
  T* const weights = slopes + 2 * kBuffer;       // [kTile, kLine]
  T* const changes = weights + kTile * kLine;    // [kTile, kLine], ds
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto width = static_cast<int>(task.width), value_width = static_cast<int>(task.value_width);
  const T *q = span.rows<T>(task.q), *dout = span.rows<T>(all.dout);
  T* dq = span.rows<T>(all.dq);
  const auto load = [&](int first, int buffer) {
    if (first < span.end) {
      const auto token = [&](int row) { return first + row < span.end ? first + row : -1; };
      load_rows<kWidth>(queries + buffer * kBuffer, q, task.q.token, kTile, width, token);
      load_rows<kWidth>(slopes + buffer * kBuffer, dout, all.dout.token, kTile, value_width, token);
    }
    mma::commit_copies();
  };
  const Share<kSlots> share;
  mma::C dk[Share<kSlots>::kColumns / 8] = {}, dv[Share<kSlots>::kColumns / 8] = {};
  load_keys<kSlots>(task, span, keys, values, added);
  load(span.first, 0);
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(first + kTile, buffer ^ 1);
    T *const tile = queries + buffer * kBuffer, *const slope = slopes + buffer * kBuffer;
    mma::C dq_rows[1][kWidth / 8] = {};
    {
      mma::A a[1][kWidth / 16];
      mma::C w[1][kSlots / 8] = {}, ds[1][kSlots / 8] = {};
      load_left(a, tile + own * kStride);
      add_products<T>(w, a, keys);
      weigh(w, added);
      load_left(a, slope + own * kStride);
      add_products<T>(ds, a, values);
      differentiate(ds, w);
      add_slots<T>(dq_rows, ds, keys);
      show(w, weights + own * kLine);
      show(ds, changes + own * kLine);
    }
    __syncthreads();
    share.add(dv, weights, slope);
    share.add(dk, changes, tile);
    __syncthreads();
    store_rows<T, kWidth, 1>(dq_rows, tile + own * kStride, dq + (first + own) * all.dq.token,
                             all.dq.token, span.end - first - own, width);
  }
  mma::await_copies<0>();
  const int64_t place = span.place(task.batch * task.heads);
  share.store(dk, all.dk + place * task.slots * width, task.slots, width);
  share.store(dv, all.dv + place * task.slots * value_width, task.slots, value_width);
}

dim3 grid_of(const SlotSoftmax& task) {
  return dim3(static_cast<unsigned>(task.batch * task.heads),
              static_cast<unsigned>(spans_of(task.queries, task.span)));
}

}  // namespace

void slot_softmax_cuda(const SlotSoftmax& task, void* stream) noexcept {
  with_shape(task, [&]<class T, int kSlots>() {
    constexpr int kBytes = sizeof(T) * (2 * kSlots * kStride + 2 * kBuffer);
    launch(attend<T, kSlots>, grid_of(task), kThreads, kBytes, stream, task);
  });
}

void slot_softmax_backward_cuda(const SlotSoftmaxBackward& task, void* stream) noexcept {
  with_shape(task.past, [&]<class T, int kSlots>() {
    constexpr int kBytes =
        sizeof(T) * (2 * kSlots * kStride + 4 * kBuffer + 2 * kTile * mma::padded(kSlots));
    launch(differentiate<T, kSlots>, grid_of(task.past), kThreads, kBytes, stream, task);
  });
}

}  // namespace longbow::kernels

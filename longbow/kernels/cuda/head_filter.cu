// With P = (taps - 1) / 2, token m of 16 is a row of a band matrix times the 48 rows around them,
//   out_m = sum_k f_{k - m} x_{m0 - P + k},   0 <= k < 48,
// which is a product of tensor cores. dx is the same with the filter turned round; and
//   df_t = sum_m dout_m . x_{m + t - P}
// are sums along the diagonals of dout x^T, whose [16, 48] numbers a warp adds up over all tokens
// of its span.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/cuda/tile_rows.h"
#include "longbow/kernels/head_filter.h"
#include "longbow/kernels/head_span.h"

namespace longbow::kernels {
namespace {

using namespace blocks;

constexpr int kWarps = 4, kThreads = kWarps * 32, kTile = kWarps * 16;
constexpr int kBand = 48, kWindow = kTile + kBand - 16;  // rows around 16 and around 64 tokens
constexpr int kWidth = kMostFilteredWidth, kStride = mma::padded(kWidth);
constexpr int kBuffer = kWindow * kStride;
static_assert(kBand == 16 + kMostFilterTaps - 1);

// The band matrix [16, 48] of a head's filter, or of the filter turned round.
template <class T>
__device__ __forceinline__ void load_band(mma::A (&band)[kBand / 16][1], const HeadFilter& task,
                                          const HeadSpan& span, bool turned) {
  const auto taps = static_cast<int>(task.taps);
  const float* filter = task.filter + span.head * taps;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const auto tap = [&](int i) {
    return i < 0 || i >= taps ? 0.0f : filter[turned ? taps - 1 - i : i];
  };
#pragma unroll
  for (int step = 0; step < kBand / 16; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int at = step * 16 + part / 2 * 8 + 2 * t - (part % 2 * 8 + g);
      band[step][0].part[part] = mma::pack<T>(tap(at), tap(at + 1));
    }
}

// Begins to copy the rows around the 64 tokens from `first` on.
template <class T>
__device__ __forceinline__ void load_window(T* to, const HeadFilter& task, const T* from,
                                            int64_t stride, int first) {
  const auto tokens = static_cast<int>(task.tokens);
  const int start = first - static_cast<int>(task.taps) / 2;
  load_rows<kWidth>(to, from, stride, kWindow, static_cast<int>(task.width), [&](int row) {
    return start + row >= 0 && start + row < tokens ? start + row : -1;
  });
}

template <class T>
__device__ __forceinline__ void filter_rows(mma::C (&sum)[1][kWidth / 8],
                                            const mma::A (&band)[kBand / 16][1], const T* window) {
#pragma unroll
  for (int step = 0; step < kBand / 16; ++step)
    add_weighed(sum, band[step], window + step * 16 * kStride);
}

template <class T>
__global__ void __launch_bounds__(kThreads) filter(HeadFilter task) {
  const HeadSpan span(task.heads, task.tokens, task.span);
  unsigned char* const memory = dynamic_memory();
  T* const windows = reinterpret_cast<T*>(memory);  // two buffers
  T* const room = windows + 2 * kBuffer;            // [kTile, kStride]
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  const T* x = span.rows<T>(task.x);
  T* out = span.rows<T>(task.out);
  mma::A band[kBand / 16][1];
  load_band<T>(band, task, span, false);
  const auto load = [&](int first, int buffer) {
    if (first < span.end) load_window(windows + buffer * kBuffer, task, x, task.x.token, first);
    mma::commit_copies();
  };
  load(span.first, 0);
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(first + kTile, buffer ^ 1);
    mma::C sum[1][kWidth / 8] = {};
    filter_rows(sum, band, windows + buffer * kBuffer + own * kStride);
    store_rows<T, kWidth, 1>(sum, room + own * kStride, out + (first + own) * task.out.token,
                             task.out.token, span.end - first - own, static_cast<int>(task.width));
    __syncwarp();
  }
  mma::await_copies<0>();
}

template <class T>
__global__ void __launch_bounds__(kThreads) differentiate(HeadFilterBackward all) {
  const auto& task = all.past;
  const HeadSpan span(task.heads, task.tokens, task.span);
  unsigned char* const memory = dynamic_memory();
  __shared__ float diagonals[kWarps][16][kBand];
  T* const windows = reinterpret_cast<T*>(memory);  // two buffers, x
  T* const slopes = windows + 2 * kBuffer;          // two buffers, dout
  T* const room = slopes + 2 * kBuffer;             // [kTile, kStride]
  const int warp = static_cast<int>(threadIdx.x) / 32, own = warp * 16;
  const auto taps = static_cast<int>(task.taps);
  const T *x = span.rows<T>(task.x), *dout = span.rows<T>(all.dout);
  T* dx = span.rows<T>(task.out);
  mma::A band[kBand / 16][1];
  load_band<T>(band, task, span, true);
  const auto load = [&](int first, int buffer) {
    if (first < span.end) {
      load_window(windows + buffer * kBuffer, task, x, task.x.token, first);
      load_window(slopes + buffer * kBuffer, task, dout, all.dout.token, first);
    }
    mma::commit_copies();
  };
  mma::C pairs[1][kBand / 8] = {};
  load(span.first, 0);
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(first + kTile, buffer ^ 1);
    const T* const slope = slopes + buffer * kBuffer + own * kStride;
    mma::A g[1][kWidth / 16];
    load_left(g, slope + taps / 2 * kStride);
    add_products<T>(pairs, g, windows + buffer * kBuffer + own * kStride);
    mma::C sum[1][kWidth / 8] = {};
    filter_rows(sum, band, slope);
    store_rows<T, kWidth, 1>(sum, room + own * kStride, dx + (first + own) * task.out.token,
                             task.out.token, span.end - first - own, static_cast<int>(task.width));
    __syncwarp();
  }
  mma::await_copies<0>();
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kBand / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      diagonals[warp][i / 2 * 8 + g][n * 8 + 2 * t + i % 2] = pairs[0][n].part[i];
  __syncthreads();
  const int64_t place = span.place(task.batch * task.heads);
  for (int tap = static_cast<int>(threadIdx.x); tap < taps; tap += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w)
      for (int m = 0; m < 16; ++m) sum += diagonals[w][m][m + tap];
    all.dfilter[place * taps + tap] = sum;
  }
}

template <class F>
void with_type(const HeadFilter& task, const F& body) {
  if (task.type == Element::bfloat16) return body.template operator()<__nv_bfloat16>();
  body.template operator()<__half>();
}

dim3 grid_of(const HeadFilter& task) {
  return dim3(static_cast<unsigned>(task.batch * task.heads),
              static_cast<unsigned>(spans_of(task.tokens, task.span)));
}

}  // namespace

void head_filter_cuda(const HeadFilter& task, void* stream) noexcept {
  with_type(task, [&]<class T>() {
    constexpr int kBytes = sizeof(T) * (2 * kBuffer + kTile * kStride);
    launch(filter<T>, grid_of(task), kThreads, kBytes, stream, task);
  });
}

void head_filter_backward_cuda(const HeadFilterBackward& task, void* stream) noexcept {
  with_type(task.past, [&]<class T>() {
    constexpr int kBytes = sizeof(T) * (4 * kBuffer + kTile * kStride);
    launch(differentiate<T>, grid_of(task.past), kThreads, kBytes, stream, task);
  });
}

}  // namespace longbow::kernels

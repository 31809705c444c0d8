// A thread block has a chunk, each of its warps 16 queries with the scores of all their keys, and
// backward also 16 keys.
#include <cuda_runtime.h>

#include "longbow/kernels/chunk_weights.h"
#include "longbow/kernels/cuda/mma.h"
#include "longbow/kernels/exponent.h"

namespace longbow::kernels {
namespace {

constexpr int kMost = ChunkWeights::kMostTokens, kWidth = ChunkWeights::kMostWidth;
constexpr int kWarps = kMost / 16, kThreads = kWarps * 32, kTiles = kMost / 8;
constexpr int kStride = mma::padded(kWidth), kSlopeStride = mma::padded(kMost);

// Where the numbers of a thread stand in the tiles of its warp: rows row() and row() + 8, columns
// 8 n + column() and the next one.
__device__ inline int row() {
  return static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
}
__device__ inline int column() {
  return static_cast<int>(threadIdx.x) % 4 * 2;
}
__device__ inline int warp_row() {
  return static_cast<int>(threadIdx.x) / 32 * 16;
}
__device__ inline float over_row(float value, bool largest) {
  for (const int far : {1, 2}) {
    const float other = __shfl_xor_sync(0xffffffffu, value, far);
    value = largest ? fmaxf(value, other) : value + other;
  }
  return value;
}

// The rows of the chunk, and zeros behind them.
template <class T>
__device__ void load(T* to, const void* from, const ChunkWeights& task) {
  const int packs = task.width / 8;
  const auto* const rows =
      static_cast<const uint4*>(from) + int64_t{blockIdx.x} * task.tokens * packs;
  for (auto i = static_cast<int>(threadIdx.x); i < kMost * packs; i += kThreads)
    *reinterpret_cast<uint4*>(to + i / packs * kStride + i % packs * 8) =
        i < task.tokens * packs ? rows[i] : uint4{0, 0, 0, 0};
}

// The numbers of a thread in [tokens, tokens] of the chunk, two at a time: body(n, i, place) for
// rows row() + 8 i.
template <class F>
__device__ __forceinline__ void each_pair(const ChunkWeights& task, const F& body) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (row() < task.tokens && n * 8 < task.tokens)
        body(n, i,
             (int64_t{blockIdx.x} * task.tokens + row() + 8 * i) * task.tokens + n * 8 + column());
}

template <class T>
__global__ void __launch_bounds__(kThreads) weigh(ChunkWeights task) {
  T* const q = reinterpret_cast<T*>(dynamic_memory());
  T* const k = q + kMost * kStride;
  load(q, task.q, task);
  load(k, task.k, task);
  __syncthreads();
  if (warp_row() >= task.tokens) return;
  mma::C s[kTiles] = {};
  for (int e = 0; e < task.width; e += 16) {
    const auto a = mma::a_of_rows(q + warp_row() * kStride + e, kStride);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      if (n * 8 >= task.tokens) break;
      const auto b = mma::b_of_columns(k + n * 8 * kStride + e, kStride);
      mma::multiply<T>(s[n], a, b.tile[0]);
      mma::multiply<T>(s[n + 1], a, b.tile[1]);
    }
  }
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {};
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int i = row() + c / 2 * 8, j = n * 8 + column() + c % 2;
      float& score = s[n].part[c];
      if (j >= task.tokens || (task.causal && j > i))
        score = -INFINITY;
      else
        score = score * task.scale + task.bias[j - i + task.tokens - 1];
      top[c / 2] = fmaxf(top[c / 2], score);
    }
  for (float& value : top) value = over_row(value, true) * kLog2E;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float& weight = s[n].part[c];
      weight = mma::power_of_two(weight * kLog2E - top[c / 2]);
      total[c / 2] += weight;
    }
  for (float& value : total) value = 1 / over_row(value, false);
  each_pair(task, [&](int n, int i, int64_t place) {
    *reinterpret_cast<uint32_t*>(static_cast<T*>(task.weights) + place) =
        mma::pack<T>(s[n].part[2 * i] * total[i], s[n].part[2 * i + 1] * total[i]);
  });
}

// Rows of dq or dk: 16 of a warp.
template <class T>
__device__ void store(void* to, const ChunkWeights& task, const mma::C (&sum)[kWidth / 8]) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (n * 8 < task.width)
        *reinterpret_cast<uint32_t*>(
            static_cast<T*>(to) + (int64_t{blockIdx.x} * task.tokens + row() + 8 * i) * task.width +
            n * 8 + column()) =
            mma::pack<T>(sum[n].part[2 * i] * task.scale, sum[n].part[2 * i + 1] * task.scale);
}
// sum += a [16, 16] b [16, width], whose rows begin at `from`.
template <class T>
__device__ void add_product(mma::C (&sum)[kWidth / 8], const mma::A& a, const T* from, int width) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; n += 2) {
    if (n * 8 >= width) break;
    const auto b = mma::b_of_rows(from + n * 8, kStride);
    mma::multiply<T>(sum[n], a, b.tile[0]);
    mma::multiply<T>(sum[n + 1], a, b.tile[1]);
  }
}

// With ds = w (dw - sum_j w dw): dq = scale ds k, dk = scale ds^T q, and dbias its sums by
// distance.
template <class T>
__global__ void __launch_bounds__(kThreads) weigh_backward(ChunkWeightsBackward all) {
  const auto& task = all.past;
  T* const q = reinterpret_cast<T*>(dynamic_memory());
  T* const k = q + kMost * kStride;
  T* const slopes = k + kMost * kStride;  // ds
  load(q, task.q, task);
  load(k, task.k, task);
  const bool own = warp_row() < task.tokens;
  mma::C ds[kTiles] = {};
  float delta[2] = {};
  each_pair(task, [&](int n, int i, int64_t place) {
    const auto pair = [&](const void* of) {
      return mma::unpack<T>(*reinterpret_cast<const uint32_t*>(static_cast<const T*>(of) + place));
    };
    const float2 w = pair(task.weights), dw = pair(all.dweights);
    delta[i] += w.x * dw.x + w.y * dw.y;
  });
  for (float& value : delta) value = over_row(value, false);
  each_pair(task, [&](int n, int i, int64_t place) {
    const auto pair = [&](const void* of) {
      return mma::unpack<T>(*reinterpret_cast<const uint32_t*>(static_cast<const T*>(of) + place));
    };
    const float2 w = pair(task.weights), dw = pair(all.dweights);
    ds[n].part[2 * i] = w.x * (dw.x - delta[i]);
    ds[n].part[2 * i + 1] = w.y * (dw.y - delta[i]);
    *reinterpret_cast<uint32_t*>(slopes + (row() + 8 * i) * kSlopeStride + n * 8 + column()) =
        mma::pack<T>(ds[n].part[2 * i], ds[n].part[2 * i + 1]);
  });
  __syncthreads();
  if (own) {
    mma::C sum[kWidth / 8] = {};
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      if (n * 8 >= task.tokens) break;
      add_product<T>(sum, mma::a_of<T>(ds[n], ds[n + 1]), k + n * 8 * kStride, task.width);
    }
    store<T>(all.dq, task, sum);
    mma::C other[kWidth / 8] = {};
    for (int i = 0; i < task.tokens; i += 16)
      add_product<T>(other, mma::a_of_columns(slopes + i * kSlopeStride + warp_row(), kSlopeStride),
                     q + i * kStride, task.width);
    store<T>(all.dk, task, other);
  }
  const int distances = 2 * task.tokens - 1, place = static_cast<int>(threadIdx.x);
  if (place >= distances) return;
  const int behind = place - (task.tokens - 1);
  float sum = 0;
  for (int i = max(0, -behind); i < min(task.tokens, task.tokens - behind); ++i)
    sum += static_cast<float>(slopes[i * kSlopeStride + i + behind]);
  all.dbias[int64_t{blockIdx.x} * distances + place] = sum;
}

template <class Task>
void run(void (*bfloat16)(Task), void (*float16)(Task), const Task& task, const ChunkWeights& past,
         int64_t numbers, void* stream) {
  launch(past.type == Element::bfloat16 ? bfloat16 : float16, static_cast<unsigned>(past.chunks),
         kThreads, static_cast<size_t>(numbers) * 2, stream, task);
}

}  // namespace

void chunk_weights_cuda(const ChunkWeights& task, void* stream) noexcept {
  run(weigh<__nv_bfloat16>, weigh<__half>, task, task, 2 * kMost * kStride, stream);
}
void chunk_weights_backward_cuda(const ChunkWeightsBackward& task, void* stream) noexcept {
  run(weigh_backward<__nv_bfloat16>, weigh_backward<__half>, task, task.past,
      2 * kMost * kStride + kMost * kSlopeStride, stream);
}

}  // namespace longbow::kernels

// Forward. A thread block holds 128 queries, 32 to a warp; keys and values pass by in tiles of 64,
// which are copied one ahead. Weights need nothing of other tiles, so sums are only added to.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/pair_tiles.h"

namespace longbow::kernels {
namespace {

using namespace pairs;

constexpr int kTiles = kTile / 8;

template <class T, class Weights>
__global__ void __launch_bounds__(kThreads, 2) read_pairs(PairProductForward all) {
  const auto& task = all.past;
  const Place place(task, static_cast<int>(task.queries), kHeld);
  const Sight sight(task, place);
  unsigned char* const memory = dynamic_memory();
  T* const queries = reinterpret_cast<T*>(memory);
  T* const keys = queries + kHeld * kStride;  // two buffers
  T* const values = keys + 2 * kBuffer;       // two buffers
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int own = static_cast<int>(threadIdx.x) / 32 * kRows * 16, first = place.first + own;
  const int end = sight.end_of_keys(place.first + kHeld);
  const T *k = place.rows<T>(task.k), *v = place.rows<T>(task.v);
  const auto load = [&](int key, int buffer) {
    if (key < end) {
      load_tile(keys + buffer * kBuffer, k, task.k.token, task.width, key, sight.keys);
      load_tile(values + buffer * kBuffer, v, task.v.token, task.value_width, key, sight.keys);
    }
    mma::commit_copies();
  };
  load_tile(queries, place.rows<T>(task.q), task.q.token, task.width, place.first, sight.queries,
            kHeld);
  load(0, 0);
  const Weights weights(task);
  OwnRows rows;
  rows.load<Weights>(task, nullptr, place.both, first);
  mma::A q[kRows][kWidth / 16];
  mma::C sum[kRows][kWidth / 8] = {};
  float total[kRows][2] = {};
  for (int key = 0, buffer = 0; key < end; key += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(key + kTile, buffer ^ 1);
    if (key == 0) load_left(q, queries + own * kStride);
    mma::C s[kRows][kTiles] = {};
    add_products<T>(s, q, keys + buffer * kBuffer);
    if (!sight.all(first, key, kTile)) hide<true>(s, sight, first, key);
#pragma unroll
    for (int m = 0; m < kRows; ++m)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& one = s[m][n].part[i];
          one = weights.weight(one, rows.row[m][i / 2], key + n * 8 + 2 * t + i % 2);
          if (Weights::kHasRows) total[m][i / 2] += one;
        }
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      mma::A w[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) w[m] = mma::a_of<T>(s[m][n], s[m][n + 1]);
      add_weighed(sum, w, values + buffer * kBuffer + n * 8 * kStride);
    }
  }
  mma::await_copies<0>();
  float* const out = place.rows<float>(all.out);
#pragma unroll
  for (int m = 0; m < kRows; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = first + m * 16 + i * 8 + g;
      if (Weights::kHasRows) {
        float one = total[m][i];
        one += __shfl_xor_sync(0xffffffffu, one, 1);
        one += __shfl_xor_sync(0xffffffffu, one, 2);
        if (t == 0 && query < sight.queries) all.total[place.both * task.queries + query] = one;
      }
      if (query >= sight.queries) continue;
      float* const row = out + query * all.out.token;
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n)
        if (n * 8 < task.value_width)
          *reinterpret_cast<float2*>(row + n * 8 + 2 * t) =
              make_float2(sum[m][n].part[2 * i], sum[m][n].part[2 * i + 1]);
    }
}

}  // namespace

void pair_product_cuda(const PairProductForward& task, void* stream) noexcept {
  with_weights(task.past, [&]<class T, class Weights>() {
    constexpr int kBytes = sizeof(T) * (kHeld * kStride + 4 * kBuffer);
    launch(read_pairs<T, Weights>, blocks_for(task.past, task.past.queries, kHeld), kThreads,
           kBytes, stream, task);
  });
}

}  // namespace longbow::kernels

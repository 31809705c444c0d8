// Backward, in two kernels that form the weights again: with g = dout, ds_ij the gradient of a
// score,
//   dq_i = sum_j ds_ij k_j,   dk_j = sum_i ds_ij q_i,   dv_j = sum_i w_ij g_i.
// The first one holds queries while keys pass by, the second one keys while queries pass by. Sums
// are always made in one order.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/pair_tiles.h"

namespace longbow::kernels {
namespace {

using namespace pairs;

template <class T, class Weights>
__global__ void __launch_bounds__(kThreads, 2) query_gradient(PairProductBackward all) {
  constexpr int kPart = 32, kTiles = kPart / 8;  // keys that are worked off at a time
  const auto& task = all.past;
  const Place place(task, static_cast<int>(task.queries), kHeld);
  const Sight sight(task, place);
  unsigned char* const memory = dynamic_memory();
  T* const queries = reinterpret_cast<T*>(memory);
  T* const slopes = queries + kHeld * kStride;  // dout
  T* const keys = slopes + kHeld * kStride;     // two buffers
  T* const values = keys + 2 * kBuffer;         // two buffers
  const int t = threadIdx.x % 4;
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
  load_tile(slopes, place.rows<T>(all.dout), all.dout.token, task.value_width, place.first,
            sight.queries, kHeld);
  load(0, 0);
  const Weights weights(task);
  OwnRows rows;
  rows.load<Weights>(task, all.delta, place.both, first);
  mma::A q[kRows][kWidth / 16], g[kRows][kWidth / 16];
  mma::C dq[kRows][kWidth / 8] = {};
  for (int key = 0, buffer = 0; key < end; key += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(key + kTile, buffer ^ 1);
    if (key == 0) {
      load_left(q, queries + own * kStride);
      load_left(g, slopes + own * kStride);
    }
    const bool all_seen = sight.all(first, key, kTile);
#pragma unroll 1
    for (int part = 0; part < kTile; part += kPart) {
      const T *part_keys = keys + buffer * kBuffer + part * kStride,
              *part_values = values + buffer * kBuffer + part * kStride;
      mma::C s[kRows][kTiles] = {}, ds[kRows][kTiles] = {};
      add_products<T>(s, q, part_keys);
      add_products<T>(ds, g, part_values);
      if (!all_seen) hide<true>(s, sight, first, key + part);
#pragma unroll
      for (int m = 0; m < kRows; ++m)
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const auto& row = rows.row[m][i / 2];
            const float score = s[m][n].part[i];
            const float weight = weights.weight(score, row, key + part + n * 8 + 2 * t + i % 2);
            float& one = ds[m][n].part[i];
            one = weights.slope(score, weight, one, row);
          }
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        mma::A a[kRows];
#pragma unroll
        for (int m = 0; m < kRows; ++m) a[m] = mma::a_of<T>(ds[m][n], ds[m][n + 1]);
        add_weighed(dq, a, part_keys + n * 8 * kStride);
      }
    }
  }
  mma::await_copies<0>();
  __syncthreads();
  store_rows<T, kWidth, kRows>(dq, queries + own * kStride,
                               place.rows<T>(all.dq) + int64_t{first} * all.dq.token, all.dq.token,
                               sight.queries - first, static_cast<int>(task.width));
}

template <class T, class Weights>
__global__ void __launch_bounds__(kThreads, 2) key_gradient(PairProductBackward all) {
  constexpr int kPart = 16, kTiles = kPart / 8;  // queries that are worked off at a time
  const auto& task = all.past;
  const Place place(task, static_cast<int>(task.keys), kHeld);
  const Sight sight(task, place);
  unsigned char* const memory = dynamic_memory();
  __shared__ Row of_queries[2][Weights::kHasRows ? kTile : 1];
  T* const keys = reinterpret_cast<T*>(memory);
  T* const values = keys + kHeld * kStride;
  T* const queries = values + kHeld * kStride;  // two buffers
  T* const slopes = queries + 2 * kBuffer;      // two buffers, dout
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int own = static_cast<int>(threadIdx.x) / 32 * kRows * 16, first = place.first + own;
  const T *q = place.rows<T>(task.q), *dout = place.rows<T>(all.dout);
  const auto load = [&](int query, int buffer) {
    if (query < sight.queries) {
      load_tile(queries + buffer * kBuffer, q, task.q.token, task.width, query, sight.queries);
      load_tile(slopes + buffer * kBuffer, dout, all.dout.token, task.value_width, query,
                sight.queries);
      if constexpr (Weights::kHasRows)
        for (int row = static_cast<int>(threadIdx.x); row < kTile; row += kThreads)
          of_queries[buffer][row] = Row::of(task, all.delta, place.both, query + row);
    }
    mma::commit_copies();
  };
  const int start = sight.first_query(place.first) / kTile * kTile;
  load_tile(keys, place.rows<T>(task.k), task.k.token, task.width, place.first, sight.keys, kHeld);
  load_tile(values, place.rows<T>(task.v), task.v.token, task.value_width, place.first, sight.keys,
            kHeld);
  load(start, 0);
  const Weights weights(task);
  mma::A k[kRows][kWidth / 16];
  mma::C dk[kRows][kWidth / 8] = {}, dv[kRows][kWidth / 8] = {};
  for (int query = start, buffer = 0; query < sight.queries; query += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(query + kTile, buffer ^ 1);
    if (query == start) load_left(k, keys + own * kStride);
    const bool all_seen = sight.all(query, first, kRows * 16);
#pragma unroll 1
    for (int part = 0; part < kTile; part += kPart) {
      const T *part_queries = queries + buffer * kBuffer + part * kStride,
              *part_slopes = slopes + buffer * kBuffer + part * kStride;
      mma::C s[kRows][kTiles] = {}, ds[kRows][kTiles] = {};
      add_products<T>(s, k, part_queries);
      {
        mma::A v[kRows][kWidth / 16];
        load_left(v, values + own * kStride);
        add_products<T>(ds, v, part_slopes);
      }
      if (!all_seen) hide<false>(s, sight, first, query + part);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const auto& row = of_queries[buffer][Weights::kHasRows ? part + n * 8 + 2 * t + j : 0];
#pragma unroll
          for (int m = 0; m < kRows; ++m)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float &score = s[m][n].part[2 * i + j], &one = ds[m][n].part[2 * i + j];
              const float weight = weights.weight(score, row, first + m * 16 + i * 8 + g);
              one = weights.slope(score, weight, one, row);
              score = weight;
            }
        }
      mma::A w[kRows], a[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        w[m] = mma::a_of<T>(s[m][0], s[m][1]);
        a[m] = mma::a_of<T>(ds[m][0], ds[m][1]);
      }
      add_weighed(dv, w, part_slopes);
      add_weighed(dk, a, part_queries);
    }
  }
  mma::await_copies<0>();
  __syncthreads();
  store_rows<T, kWidth, kRows>(dk, keys + own * kStride,
                               place.rows<T>(all.dk) + int64_t{first} * all.dk.token, all.dk.token,
                               sight.keys - first, static_cast<int>(task.width));
  store_rows<T, kWidth, kRows>(dv, values + own * kStride,
                               place.rows<T>(all.dv) + int64_t{first} * all.dv.token, all.dv.token,
                               sight.keys - first, static_cast<int>(task.value_width));
}

}  // namespace

void pair_product_backward_cuda(const PairProductBackward& task, void* stream) noexcept {
  with_weights(task.past, [&]<class T, class Weights>() {
    constexpr int kBytes = sizeof(T) * (2 * kHeld * kStride + 4 * kBuffer);
    launch(query_gradient<T, Weights>, blocks_for(task.past, task.past.queries, kHeld), kThreads,
           kBytes, stream, task);
    launch(key_gradient<T, Weights>, blocks_for(task.past, task.past.keys, kHeld), kThreads, kBytes,
           stream, task);
  });
}

}  // namespace longbow::kernels

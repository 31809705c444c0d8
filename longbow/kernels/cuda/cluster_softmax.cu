// A thread block for each cluster keeps its chosen keys and values in shared memory while its
// members, read by the order, pass by 64 at a time, 16 to a warp. What the centre reads of all keys
// is known; a member adds
//   sum_l w_il v_l,   w_il = m_j p_il - A_jl,   p_i = softmax over l of q_i . k_l,   m_j = sum_l
//   A_jl.
// Backward with g = dout, by weights that are formed again:
//   ds_il = m_j p_il (g_i . v_l - y_i),   y_i = sum_l p_il g_i . v_l,
//   dq_i = sum_l ds_il k_l,   dk_l = sum_i ds_il q_i,   dv_l = sum_i w_il g_i.
// The centre reads all keys with the gradient G_j = sum_i g_i. For a chosen key, however, dA_jl is
// dm_j = sum_i y_i and not G_j . v_l, so that scores have c_jl = A_jl (dm_j - G_j . v_l) besides,
// and sum_l A_jl dA_jl is G_j . mean_j + sum_l c_jl.
#include <cuda_runtime.h>

#include "longbow/kernels/cluster_softmax.h"
#include "longbow/kernels/cuda/slot_tiles.h"

namespace longbow::kernels {
namespace {

using namespace slots;

// What a thread block knows of its cluster; the last block of a head has the queries of none.
template <class T, int kTop>
struct Cluster {
  const ClusterSoftmax& task;
  int64_t both, batch, head, at;  // at: among the clusters of all heads
  int first, end;                 // its members, as places of the order
  bool none;
  const int64_t *order, *chosen;
  T *keys, *values;        // [kTop, kStride]
  float (&added)[kTop];    // -infinity for a key that is hidden or not there
  float (&weights)[kTop];  // A_jl

  __device__ Cluster(const ClusterSoftmax& given, T* memory, float (&adds)[kTop],
                     float (&shares)[kTop])
      : task(given),
        both(blockIdx.x / (given.members.clusters + 1)),
        batch(both / given.members.heads),
        head(both % given.members.heads),
        keys(memory),
        values(memory + kTop * kStride),
        added(adds),
        weights(shares) {
    const auto& members = given.members;
    const int64_t own = blockIdx.x % (members.clusters + 1);
    const int64_t* const starts = members.first + both * (members.clusters + 1) + own;
    none = own == members.clusters;
    at = both * members.clusters + own;
    first = static_cast<int>(starts[0]);
    end = static_cast<int>(none ? members.queries : starts[1]);
    order = members.order + both * members.queries;
    chosen = given.chosen + at * given.top;
  }
  __device__ int token(int place) const {
    return place < end ? static_cast<int>(order[place]) : -1;
  }
  template <class U, class Pointer>
  __device__ U* rows(const StridedRows<Pointer>& x) const {
    return static_cast<U*>(x.data) + batch * x.batch + head * x.head;
  }
  // Zeros for queries of no cluster.
  __device__ void clear(const HeadResults& x, int64_t width) const {
    constexpr int kPacks = kWidth / 8;
    T* const to = rows<T>(x);
    for (int64_t i = int64_t{first} * kPacks + threadIdx.x; i < int64_t{end} * kPacks;
         i += kThreads) {
      const int64_t column = i % kPacks * 8;
      if (column < width)
        *reinterpret_cast<uint4*>(to + order[i / kPacks] * x.token + column) = {0, 0, 0, 0};
    }
  }
  // Begins to copy members.
  __device__ void load(T* to, const HeadRows& x, int64_t width, int place) const {
    load_rows<kWidth>(to, rows<const T>(x), x.token, kTile, static_cast<int>(width),
                      [&](int row) { return token(place + row); });
  }
  __device__ void load_chosen() const {
    const auto top = static_cast<int>(task.top);
    const auto key = [&](int row) { return row < top ? static_cast<int>(chosen[row]) : -1; };
    load_rows<kWidth>(keys, rows<const T>(task.k), task.k.token, kTop, static_cast<int>(task.width),
                      key);
    load_rows<kWidth>(values, rows<const T>(task.v), task.v.token, kTop,
                      static_cast<int>(task.value_width), key);
    const bool* keep = task.keep ? task.keep + batch * task.keys : nullptr;
    for (int l = static_cast<int>(threadIdx.x); l < kTop; l += kThreads)
      added[l] = l < top && (!keep || keep[chosen[l]]) ? 0 : -INFINITY;
  }
  __device__ void note_choice(unsigned* choosers) const {
    const auto own = static_cast<unsigned>(at % task.members.clusters);
    for (int64_t l = threadIdx.x; l < task.top; l += kThreads)
      atomicOr(choosers + (both * task.keys + chosen[l]) * kWordsOfClusters + own / 32,
               1u << own % 32);
  }
  // The products of a row of the chosen with as many numbers, by kShare threads: use(l, product).
  template <class U, class F>
  __device__ void each_product(const T* of, const U* with, int64_t width, const F& use) const {
    constexpr int kShare = kThreads / kTop;
    const int l = static_cast<int>(threadIdx.x) / kShare,
              part = static_cast<int>(threadIdx.x) % kShare;
    float sum = 0;
    for (int e = part; e < width; e += kShare)
      sum += static_cast<float>(of[l * kStride + e]) * static_cast<float>(with[e]);
#pragma unroll
    for (int other = 1; other < kShare; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (part == 0) use(l, sum);
  }
  __device__ const T* centre() const {
    return static_cast<const T*>(task.centres) + at * task.width;
  }
  // Once the chosen have arrived; m_j. Weights are seen by all behind the next barrier but one.
  __device__ float weigh_chosen() const {
    const float log_sum = task.log_sum[at];
    __syncthreads();
    each_product(keys, centre(), task.width, [&](int l, float score) {
      const bool seen = added[l] == 0 && log_sum > -INFINITY;
      weights[l] = seen ? mma::power_of_two((score - log_sum) * kLog2E) : 0;
    });
    __syncthreads();
    float mass = 0;
    for (int l = 0; l < kTop; ++l) mass += weights[l];
    return mass;
  }
  // w_il from p_il.
  __device__ void correct(mma::C (&w)[1][kTop / 8], float mass) const {
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int n = 0; n < kTop / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        w[0][n].part[i] = mass * w[0][n].part[i] - weights[n * 8 + 2 * t + i % 2];
  }
  __device__ void store(const mma::C (&sum)[1][kWidth / 8], T* room, const HeadResults& x,
                        int64_t width, int place, float factor) const {
    T* const to = rows<T>(x);
    const float both_halves[1][2] = {{factor, factor}};
    store_rows_at<T, kWidth, 1>(sum, both_halves, room, end - place, static_cast<int>(width),
                                [&](int row) { return to + order[place + row] * x.token; });
  }
};

template <class T, int kTop>
__global__ void __launch_bounds__(kThreads) attend(ClusterSoftmax task) {
  __shared__ float added[kTop], weights[kTop];
  T* const memory = reinterpret_cast<T*>(dynamic_memory());
  T* const queries = memory + 2 * kTop * kStride;
  const Cluster<T, kTop> cluster(task, memory, added, weights);
  if (cluster.none) return cluster.clear(task.out, task.value_width);
  if (cluster.first == cluster.end) return;
  const int t = threadIdx.x % 4, own = static_cast<int>(threadIdx.x) / 32 * 16;
  cluster.load_chosen();
  cluster.load(queries, task.q, task.width, cluster.first);
  mma::commit_copies();
  mma::await_copies<0>();
  const float mass = cluster.weigh_chosen();
  const float* mean = task.means + cluster.at * task.value_width;
  for (int first = cluster.first;; first += kTile) {
    T* const room = queries + own * kStride;
    mma::A a[1][kWidth / 16];
    load_left(a, room);
    mma::C w[1][kTop / 8] = {}, sum[1][kWidth / 8];
    add_products<T>(w, a, cluster.keys);
    weigh(w, added, task.scale);
    cluster.correct(w, mass);
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + 2 * t + i % 2;
        sum[0][n].part[i] = column < task.value_width ? mean[column] : 0;
      }
    add_slots<T>(sum, w, cluster.values);
    cluster.store(sum, room, task.out, task.value_width, first + own, 1);
    if (first + kTile >= cluster.end) break;
    __syncthreads();
    cluster.load(queries, task.q, task.width, first + kTile);
    mma::commit_copies();
    mma::await_copies<0>();
    __syncthreads();
  }
}

// ds from p and dp = g . v; adds y of the rows of this thread to `total`.
template <int kTiles>
__device__ __forceinline__ void differentiate(mma::C (&dp)[1][kTiles], const mma::C (&p)[1][kTiles],
                                              float mass, float& total) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float y = 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) y += p[0][n].part[2 * i + j] * dp[0][n].part[2 * i + j];
    y += __shfl_xor_sync(0xffffffffu, y, 1);
    y += __shfl_xor_sync(0xffffffffu, y, 2);
    total += y;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& one = dp[0][n].part[2 * i + j];
        one = mass * p[0][n].part[2 * i + j] * (one - y);
      }
  }
}

// What is left when all members have passed by.
template <int kTop>
struct Sums {
  float parts[2][kWidth];  // of G_j, by two halves of the threads
  float slopes[kWidth];    // G_j, as it is rounded
  float totals[kWarps];    // of dm_j
  float changes[kTop];     // c_jl
};

// The sum of G_j as the centre reads with it, c_jl, delta, and what the chosen keys add to the
// gradient of the centre.
template <class T, int kTop>
__device__ void finish(const ClusterSoftmaxBackward& all, const Cluster<T, kTop>& cluster,
                       Sums<kTop>& sums, float slope, float total) {
  const auto& task = all.past;
  const auto thread = static_cast<int>(threadIdx.x), column = thread % kWidth;
#pragma unroll
  for (int other = 4; other < 32; other *= 2) total += __shfl_xor_sync(0xffffffffu, total, other);
  if (thread % 32 == 0) sums.totals[thread / 32] = total;
  sums.parts[thread / kWidth][column] = slope;
  __syncthreads();
  if (thread < kWidth) {
    const T rounded = static_cast<T>(sums.parts[0][column] + sums.parts[1][column]);
    sums.slopes[column] = static_cast<float>(rounded);
    if (column < task.value_width)
      static_cast<T*>(all.dmeans)[cluster.at * task.value_width + column] = rounded;
  }
  __syncthreads();
  float mass_slope = 0;
  for (const float one : sums.totals) mass_slope += one;
  cluster.each_product(cluster.values, sums.slopes, task.value_width, [&](int l, float product) {
    sums.changes[l] = cluster.weights[l] * (mass_slope - product);
  });
  __syncthreads();
  if (thread < task.width) {
    float sum = 0;
    for (int l = 0; l < kTop; ++l)
      sum += sums.changes[l] * static_cast<float>(cluster.keys[l * kStride + thread]);
    all.dcentres[cluster.at * task.width + thread] = sum;
  }
  if (thread >= kThreads - 32) {
    const int lane = thread % 32;
    float sum = 0;
    for (int d = lane; d < task.value_width; d += 32)
      sum += sums.slopes[d] * task.means[cluster.at * task.value_width + d];
    for (int l = lane; l < kTop; l += 32) sum += sums.changes[l];
#pragma unroll
    for (int other = 1; other < 32; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0) all.delta[cluster.at] = sum;
  }
}

// Gradients of the chosen; dk_l also has c_jl times the centre, which is scaled already.
template <class T, int kTop>
__device__ void store_chosen(const ClusterSoftmaxBackward& all, const Cluster<T, kTop>& cluster,
                             const Share<kTop>& share,
                             const mma::C (&dk)[Share<kTop>::kColumns / 8],
                             const mma::C (&dv)[Share<kTop>::kColumns / 8],
                             const float (&changes)[kTop]) {
  const auto& task = all.past;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const T* const centre = cluster.centre();
#pragma unroll
  for (int n = 0; n < Share<kTop>::kColumns / 8; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int l = share.slot + i * 8 + g, e = share.column + n * 8 + 2 * t;
      if (l >= task.top) continue;
      const int64_t row = cluster.at * task.top + l;
      if (e < task.width)
        *reinterpret_cast<float2*>(all.dk + row * task.width + e) = make_float2(
            dk[n].part[2 * i] * task.scale + changes[l] * static_cast<float>(centre[e]),
            dk[n].part[2 * i + 1] * task.scale + changes[l] * static_cast<float>(centre[e + 1]));
      if (e < task.value_width)
        *reinterpret_cast<float2*>(all.dv + row * task.value_width + e) =
            make_float2(dv[n].part[2 * i], dv[n].part[2 * i + 1]);
    }
}

// Zeros where a cluster has no members.
template <class T>
__device__ void clear_cluster(const ClusterSoftmaxBackward& all, int64_t at) {
  const int64_t width = all.past.width, value_width = all.past.value_width;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) all.dcentres[at * width + i] = 0;
  for (int64_t i = threadIdx.x; i < value_width; i += kThreads)
    static_cast<T*>(all.dmeans)[at * value_width + i] = static_cast<T>(0.0f);
  if (threadIdx.x == 0) all.delta[at] = 0;
}

template <class T, int kTop>
__global__ void __launch_bounds__(kThreads, kTop <= 32 ? 4 : 3)
    differentiate(ClusterSoftmaxBackward all) {
  constexpr int kLine = mma::padded(kTop);
  const auto& task = all.past;
  __shared__ float added[kTop], weights[kTop];
  __shared__ Sums<kTop> sums;
  T* const memory = reinterpret_cast<T*>(dynamic_memory());
  T* const queries = memory + 2 * kTop * kStride;
  T* const slopes = queries + kBuffer;       // dout
  T* const shown = slopes + kBuffer;         // [kTile, kLine], w
  T* const changes = shown + kTile * kLine;  // [kTile, kLine], ds
  const Cluster<T, kTop> cluster(task, memory, added, weights);
  if (cluster.none) return cluster.clear(all.dq, task.width);
  if (cluster.first == cluster.end) return clear_cluster<T>(all, cluster.at);
  cluster.note_choice(all.choosers);
  const auto thread = static_cast<int>(threadIdx.x);
  const int own = thread / 32 * 16, half = thread / kWidth * (kTile / 2), column = thread % kWidth;
  const auto load = [&](int first) {
    cluster.load(queries, task.q, task.width, first);
    cluster.load(slopes, all.dout, task.value_width, first);
    mma::commit_copies();
    mma::await_copies<0>();
  };
  cluster.load_chosen();
  load(cluster.first);
  const float mass = cluster.weigh_chosen();
  const Share<kTop> share;
  mma::C dk[Share<kTop>::kColumns / 8] = {}, dv[Share<kTop>::kColumns / 8] = {};
  float slope = 0, total = 0;  // of G_j in one column, of dm_j
  for (int first = cluster.first;; first += kTile) {
    mma::C dq[1][kWidth / 8] = {};
    {
      mma::A a[1][kWidth / 16];
      mma::C p[1][kTop / 8] = {}, ds[1][kTop / 8] = {};
      load_left(a, queries + own * kStride);
      add_products<T>(p, a, cluster.keys);
      weigh(p, added, task.scale);
      load_left(a, slopes + own * kStride);
      add_products<T>(ds, a, cluster.values);
      differentiate(ds, p, mass, total);
      cluster.correct(p, mass);
      add_slots<T>(dq, ds, cluster.keys);
      show(p, shown + own * kLine);
      show(ds, changes + own * kLine);
    }
    for (int row = 0; row < kTile / 2; ++row)
      slope += static_cast<float>(slopes[(half + row) * kStride + column]);
    __syncthreads();
    share.add(dv, shown, slopes);
    share.add(dk, changes, queries);
    __syncthreads();
    cluster.store(dq, queries + own * kStride, all.dq, task.width, first + own, task.scale);
    if (first + kTile >= cluster.end) break;
    __syncthreads();
    load(first + kTile);
    __syncthreads();
  }
  finish(all, cluster, sums, slope, total);
  store_chosen(all, cluster, share, dk, dv, sums.changes);
}

template <class F>
void with_top(const ClusterSoftmax& task, const F& body) {
  const auto with_keys = [&]<class T>() {
    if (task.top <= 32) return body.template operator()<T, 32>();
    body.template operator()<T, 64>();
  };
  if (task.type == Element::bfloat16) return with_keys.template operator()<__nv_bfloat16>();
  with_keys.template operator()<__half>();
}

unsigned blocks_for(const ClusterMembers& members) {
  return static_cast<unsigned>(members.batch * members.heads * (members.clusters + 1));
}

}  // namespace

void cluster_softmax_cuda(const ClusterSoftmax& task, void* stream) noexcept {
  with_top(task, [&]<class T, int kTop>() {
    constexpr int kBytes = sizeof(T) * (2 * kTop * kStride + kBuffer);
    launch(attend<T, kTop>, blocks_for(task.members), kThreads, kBytes, stream, task);
  });
}

void cluster_softmax_backward_cuda(const ClusterSoftmaxBackward& task, void* stream) noexcept {
  with_top(task.past, [&]<class T, int kTop>() {
    constexpr int kBytes =
        sizeof(T) * (2 * kTop * kStride + 2 * kBuffer + 2 * kTile * mma::padded(kTop));
    launch(differentiate<T, kTop>, blocks_for(task.past.members), kThreads, kBytes, stream, task);
  });
}

}  // namespace longbow::kernels

// A thread block for each cluster: 16 of its members at a time, eight channels to a thread.
#include <cuda_runtime.h>

#include "longbow/kernels/cluster_softmax.h"
#include "longbow/kernels/cuda/eight.h"

namespace longbow::kernels {
namespace {

constexpr int kPacks = kMostClusterWidth / 8, kRows = 16, kThreads = kRows * kPacks;

// The members of the cluster of this thread block, as places of an order.
struct Own {
  int64_t both, cluster;  // among all heads, of this one
  const int64_t* order;
  int first, end;

  __device__ explicit Own(const ClusterMembers& members)
      : both(blockIdx.x / members.clusters),
        cluster(blockIdx.x % members.clusters),
        order(members.order + both * members.queries),
        first(static_cast<int>(members.first[both * (members.clusters + 1) + cluster])),
        end(static_cast<int>(members.first[both * (members.clusters + 1) + cluster + 1])) {}
};

template <class Pointer>
__device__ int64_t head_of(const StridedRows<Pointer>& x, int64_t both, int64_t heads) {
  return both / heads * x.batch + both % heads * x.head;
}

template <class T>
__global__ void __launch_bounds__(kThreads) take_means(ClusterMeans task) {
  const Own own(task.members);
  __shared__ float sums[kRows][kPacks * 8];
  const int row = static_cast<int>(threadIdx.x) / kPacks,
            column = static_cast<int>(threadIdx.x) % kPacks * 8;
  const T* q = static_cast<const T*>(task.q.data) + head_of(task.q, own.both, task.members.heads);
  Eight sum = {};
  if (column < task.width)
#pragma unroll 4
    for (int i = own.first + row; i < own.end; i += kRows)
      add(sum, 1, read<T>(q + own.order[i] * task.q.token + column));
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[row][column + i] = sum.value[i];
  __syncthreads();
  const auto channel = static_cast<int>(threadIdx.x);
  if (channel >= task.width) return;
  float all = 0;
  for (int i = 0; i < kRows; ++i) all += sums[i][channel];
  const int count = max(1, own.end - own.first);
  static_cast<T*>(task.centres)[blockIdx.x * task.width + channel] =
      static_cast<T>(all * task.scale / static_cast<float>(count));
}

template <class T>
__global__ void __launch_bounds__(kThreads) share_out(ClusterMeansBackward task) {
  const Own own(task.members);
  if (own.first == own.end) return;
  __shared__ float sums[kPacks * 8];
  const auto channel = static_cast<int>(threadIdx.x);
  if (channel < task.width) {
    const int64_t part = task.members.batch * task.members.heads * task.members.clusters;
    float all = 0;
    for (int64_t i = 0; i < task.parts; ++i)
      all += task.dcentres[(i * part + blockIdx.x) * task.width + channel];
    sums[channel] = all * task.scale / static_cast<float>(own.end - own.first);
  }
  __syncthreads();
  const int row = channel / kPacks, column = channel % kPacks * 8;
  T* dq = static_cast<T*>(task.dq.data) + head_of(task.dq, own.both, task.members.heads);
  if (column >= task.width) return;
#pragma unroll 4
  for (int i = own.first + row; i < own.end; i += kRows) {
    T* const place = dq + own.order[i] * task.dq.token + column;
    Eight sum = read<T>(place);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum.value[j] += sums[column + j];
    write<T>(place, sum);
  }
}

unsigned blocks_for(const ClusterMembers& members) {
  return static_cast<unsigned>(members.batch * members.heads * members.clusters);
}

}  // namespace

void cluster_means_cuda(const ClusterMeans& task, void* stream) noexcept {
  const auto kernel =
      task.type == Element::bfloat16 ? take_means<__nv_bfloat16> : take_means<__half>;
  launch(kernel, blocks_for(task.members), kThreads, 0, stream, task);
}

void cluster_means_backward_cuda(const ClusterMeansBackward& task, void* stream) noexcept {
  const auto kernel = task.type == Element::bfloat16 ? share_out<__nv_bfloat16> : share_out<__half>;
  launch(kernel, blocks_for(task.members), kThreads, 0, stream, task);
}

}  // namespace longbow::kernels

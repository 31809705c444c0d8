// Scores of up to 128 centres and 64 keys at a time are written to memory; then a thread block for
// each centre goes over its row twice. Each two threads find their largest score; T scores or more
// are not below the T-th largest of those, and few others. These are collected and ranked, as whole
// numbers of score and place, no two of which are equal. Where they are too many, the T-th largest
// number is found bit by bit first.
//
// Backward, a warp for each key adds up what the clusters that chose it have for it, cluster by
// cluster; each lane looks for the key in the list of one of them.
#include <cuda_runtime.h>

#include "longbow/kernels/cluster_softmax.h"
#include "longbow/kernels/cuda/ordered.h"
#include "longbow/kernels/cuda/slot_tiles.h"
#include "longbow/kernels/head_span.h"
#include "longbow/kernels/pack_softmax.h"

namespace longbow::kernels {
namespace {

using namespace slots;

constexpr int kCentres = static_cast<int>(kMostPackQueries);
static_assert(kCentres == 32 * kWordsOfClusters);

template <class T>
__global__ void __launch_bounds__(kThreads) write_scores(ClusterKeys task) {
  const HeadSpan span(task.heads, task.keys, task.span);
  __shared__ float added[2][kTile];
  T* const centres = reinterpret_cast<T*>(dynamic_memory());
  T* const keys = centres + kCentres * kStride;  // two buffers
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const bool* keep = task.keep ? task.keep + span.batch * task.keys : nullptr;
  const auto width = static_cast<int>(task.width), clusters = static_cast<int>(task.clusters);
  const auto load = [&](int first, int buffer) {
    if (first < span.end) {
      const auto token = [&](int row) { return first + row < span.end ? first + row : -1; };
      load_rows<kWidth>(keys + buffer * kBuffer, span.rows<T>(task.k), task.k.token, kTile, width,
                        token);
      for (int row = static_cast<int>(threadIdx.x); row < kTile; row += kThreads)
        added[buffer][row] = token(row) >= 0 && (!keep || keep[token(row)]) ? 0.0f : -INFINITY;
    }
    mma::commit_copies();
  };
  load_slots<kCentres>(centres,
                       static_cast<const T*>(task.centres) + span.both * clusters * task.width,
                       task.width, clusters, task.width);
  load(span.first, 0);
  float* const scores = task.scores + span.both * clusters * task.stride;
  for (int first = span.first, buffer = 0; first < span.end; first += kTile, buffer ^= 1) {
    mma::await_copies<0>();
    __syncthreads();
    load(first + kTile, buffer ^ 1);
    for (int own = warp * 16; own < clusters; own += kWarps * 16) {
      mma::A a[1][kWidth / 16];
      mma::C s[1][kTile / 8] = {};
      load_left(a, centres + own * kStride);
      add_products<T>(s, a, keys + buffer * kBuffer);
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = own + i * 8 + g, column = n * 8 + 2 * t;
          if (row < clusters && first + column < task.stride)
            *reinterpret_cast<float2*>(scores + row * task.stride + first + column) =
                make_float2(s[0][n].part[2 * i] + added[buffer][column],
                            s[0][n].part[2 * i + 1] + added[buffer][column + 1]);
        }
    }
  }
  mma::await_copies<0>();
}

constexpr int kSearchers = 256, kGroups = kSearchers / 2, kMostFound = 1024;

// The row of one centre, which the threads of a block share.
struct Row {
  const float* scores;
  int keys, top;
  uint64_t* found;  // [kMostFound]
  int* count;

  template <class F>
  __device__ __forceinline__ void each(const F& use) const {
#pragma unroll 8
    for (int key = static_cast<int>(threadIdx.x); key < keys; key += kSearchers)
      use(ordered(scores[key]), key);
  }
  // How many numbers are not below the floor; the first of them are collected.
  __device__ int collect(uint64_t floor) const {
    __syncthreads();
    if (threadIdx.x == 0) *count = 0;
    __syncthreads();
    each([&](unsigned score, int key) {
      const uint64_t number = uint64_t{score} << 32 | (0xffffffffu - static_cast<unsigned>(key));
      if (number < floor) return;
      const int place = atomicAdd(count, 1);
      if (place < kMostFound) found[place] = number;
    });
    __syncthreads();
    return *count;
  }
  __device__ uint64_t exact_floor() const {
    uint64_t floor = 0;
    for (int bit = 63; bit >= 0; --bit)
      if (collect(floor | uint64_t{1} << bit) >= top) floor |= uint64_t{1} << bit;
    return floor;
  }
};

__global__ void __launch_bounds__(kSearchers) choose(ClusterKeys task) {
  __shared__ uint4 largest[kGroups / 4];
  __shared__ uint64_t found[kMostFound];
  __shared__ unsigned floor;
  __shared__ int count;
  const auto own = static_cast<int>(threadIdx.x), top = static_cast<int>(task.top);
  const Row row = {task.scores + blockIdx.x * task.stride, static_cast<int>(task.keys), top, found,
                   &count};
  unsigned mine = 0;  // less than any score
  row.each([&](unsigned score, int) { mine = max(mine, score); });
  mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, 16));
  auto* const groups = reinterpret_cast<unsigned*>(largest);
  if (own % 32 < 16) groups[own / 32 * 16 + own % 16] = mine;
  if (own == 0) floor = 0xffffffffu;
  __syncthreads();
  if (own < kGroups) {
    mine = groups[own];
    int larger = 0;
    for (const uint4& four : largest)
      larger += (four.x > mine) + (four.y > mine) + (four.z > mine) + (four.w > mine);
    if (larger < top) atomicMin(&floor, mine);
  }
  __syncthreads();
  int candidates = row.collect(uint64_t{floor} << 32);
  if (candidates > kMostFound) candidates = row.collect(row.exact_floor());
  int64_t* const chosen = task.chosen + blockIdx.x * top;
  for (int i = own; i < candidates; i += kSearchers) {
    int place = 0;
    for (int other = 0; other < candidates; ++other) place += found[other] > found[i] ? 1 : 0;
    if (place < top) chosen[place] = 0xffffffffu - static_cast<unsigned>(found[i]);
  }
}

constexpr int kAdders = 128;

// to += the sum of four channels.
template <class T>
__device__ void add_four(T* to, const float4& sum) {
  auto* const both = reinterpret_cast<uint2*>(to);
  const float2 a = mma::unpack<T>(both->x), b = mma::unpack<T>(both->y);
  *both = {mma::pack<T>(a.x + sum.x, a.y + sum.y), mma::pack<T>(b.x + sum.z, b.y + sum.w)};
}

template <class T>
__global__ void __launch_bounds__(kAdders) add_chosen(ClusterKeysBackward task) {
  const int64_t at = (int64_t{blockIdx.x} * kAdders + threadIdx.x) / 32;
  const int64_t both = at / task.keys, key = at % task.keys;
  if (both >= task.batch * task.heads) return;
  const unsigned* const choosers = task.choosers + at * kWordsOfClusters;
  const int lane = static_cast<int>(threadIdx.x) % 32, column = lane % 16 * 4;
  const bool values = lane >= 16;
  const int64_t width = values ? task.value_width : task.width;
  const float* const from = (values ? task.from_v : task.from_k) + column;
  float4 sum = {0, 0, 0, 0};
  bool any = false;
  for (int word = 0; word < kWordsOfClusters; ++word) {
    const unsigned bits = choosers[word];
    if (bits == 0) continue;
    any = true;
    int64_t own = (both * task.clusters + word * 32 + lane) * task.top;  // a place of the list
    if (bits >> lane & 1) {
      int slot = 0;
#pragma unroll 8
      for (int l = 0; l < task.top; ++l)
        if (task.chosen[own + l] == key) slot = l;
      own += slot;
    }
    __syncwarp();
    for (unsigned left = bits; left != 0; left &= left - 1) {
      const int64_t place = __shfl_sync(0xffffffffu, own, __ffs(static_cast<int>(left)) - 1);
      if (column >= width) continue;
      const auto row = *reinterpret_cast<const float4*>(from + place * width);
      sum = {sum.x + row.x, sum.y + row.y, sum.z + row.z, sum.w + row.w};
    }
  }
  if (!any || column >= width) return;
  const HeadResults& to = values ? task.dv : task.dk;
  add_four(static_cast<T*>(to.data) + both / task.heads * to.batch + both % task.heads * to.head +
               key * to.token + column,
           sum);
}

}  // namespace

void cluster_keys_cuda(const ClusterKeys& task, void* stream) noexcept {
  const auto write_in = [&]<class T>() {
    constexpr int kBytes = sizeof(T) * (kCentres * kStride + 2 * kBuffer);
    launch(write_scores<T>,
           dim3(static_cast<unsigned>(task.batch * task.heads),
                static_cast<unsigned>(spans_of(task.keys, task.span))),
           kThreads, kBytes, stream, task);
  };
  if (task.type == Element::bfloat16)
    write_in.template operator()<__nv_bfloat16>();
  else
    write_in.template operator()<__half>();
  launch(choose, static_cast<unsigned>(task.batch * task.heads * task.clusters), kSearchers, 0,
         stream, task);
}

void cluster_keys_backward_cuda(const ClusterKeysBackward& task, void* stream) noexcept {
  const int64_t rows = task.batch * task.heads * task.keys, warps = kAdders / 32;
  const auto kernel =
      task.type == Element::bfloat16 ? add_chosen<__nv_bfloat16> : add_chosen<__half>;
  launch(kernel, static_cast<unsigned>((rows + warps - 1) / warps), kAdders, 0, stream, task);
}

}  // namespace longbow::kernels

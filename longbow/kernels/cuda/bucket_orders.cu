// A thread block has a line, each of its warps a run of the tokens. All warps count their tokens of
// every bucket; a token's place is then the number of those in buckets before its own, of those in
// its own that earlier warps have, and of those before it. No sum depends on who is first.
#include "longbow/kernels/bucket_orders.h"
#include "longbow/kernels/cuda/device.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;

// The lanes whose bucket is that of this one; lanes without a token have -1.
__device__ unsigned peers_of(int bucket, int bits) {
  unsigned peers = 0xffffffffu;
  for (int bit = -1; bit < bits; ++bit) {
    const bool set = bit < 0 ? bucket >= 0 : (bucket >> bit & 1) != 0;
    const unsigned vote = __ballot_sync(0xffffffffu, set);
    peers &= set ? vote : ~vote;
  }
  return peers;
}

// body(token, bucket, lanes before this one in it) for the tokens of a warp, whose `count` of each
// bucket then grows.
template <class F>
__device__ void each_token(const BucketOrders& task, int* count, int bits, const F& body) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tiles = (task.tokens + 31) / 32, run = (tiles + kWarps - 1) / kWarps * 32;
  const int64_t end = min(task.tokens, (warp + 1) * run);
  const int64_t* const buckets = task.bucket + blockIdx.x * task.tokens;
  for (int64_t first = warp * run; first < end; first += 32) {
    const int64_t token = first + lane;
    const int bucket = token < end ? static_cast<int>(buckets[token]) - task.least : -1;
    const unsigned peers = peers_of(bucket, bits), before = peers & ((1u << lane) - 1);
    if (bucket >= 0) body(token, bucket, __popc(before));
    __syncwarp();
    if (bucket >= 0 && before == 0) count[bucket] += __popc(peers);
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads) sort(BucketOrders task, int bits) {
  int* const counts = reinterpret_cast<int*>(dynamic_memory());  // [kWarps, buckets]
  int* const totals = counts + kWarps * task.buckets;            // [buckets]
  int* const own = counts + static_cast<int>(threadIdx.x) / 32 * task.buckets;
  for (int i = static_cast<int>(threadIdx.x); i < kWarps * task.buckets; i += kThreads)
    counts[i] = 0;
  __syncthreads();
  each_token(task, own, bits, [](int64_t, int, int) {});
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < task.buckets; b += kThreads) {
    int sum = 0;
    for (int w = 0; w < kWarps; ++w) {
      const int count = counts[w * task.buckets + b];
      counts[w * task.buckets + b] = sum;
      sum += count;
    }
    totals[b] = sum;
  }
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < task.buckets; b += kThreads) {
    int before = 0;
    for (int other = 0; other < b; ++other) before += totals[other];
    for (int w = 0; w < kWarps; ++w) counts[w * task.buckets + b] += before;
    if (task.ends) task.ends[blockIdx.x * int64_t{task.buckets} + b] = before + totals[b];
  }
  __syncthreads();
  const int64_t line = blockIdx.x * task.tokens;
  each_token(task, own, bits, [&](int64_t token, int bucket, int before) {
    const int place = own[bucket] + before;
    task.order[line + place] = token;
    if (task.inverse) task.inverse[line + token] = place;
  });
}

}  // namespace

void bucket_orders_cuda(const BucketOrders& task, void* stream) noexcept {
  int bits = 0;
  while (1 << bits < task.buckets) ++bits;
  // Whole packs of 16 bytes: the compiler adds up totals four at a time.
  const size_t numbers = static_cast<size_t>((kWarps + 1) * task.buckets + 3) / 4 * 4;
  launch(sort, static_cast<unsigned>(task.lines), kThreads, sizeof(int) * numbers, stream, task,
         bits);
}

}  // namespace longbow::kernels

// A warp has a group to itself, four neighbours to a thread, which are one draw of what is dropped.
#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/group_softmax.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kPack = 4;

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}

// kPacks times 32 x 4 numbers hold a group.
template <int kPacks>
__global__ void __launch_bounds__(kThreads) weigh(GroupSoftmax task) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t groups = task.columns / task.group;
  const int64_t index = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (index >= task.slabs * task.count * groups) return;
  const int64_t row = index / groups, slab = row / task.count;
  const int64_t column = index % groups * task.group;
  float4* const scores = reinterpret_cast<float4*>(task.scores + row * task.columns + column);
  float4* const gradient =
      task.gradient ? reinterpret_cast<float4*>(task.gradient + row * task.columns + column)
                    : nullptr;
  const int packs = static_cast<int>(task.group) / kPack;
  float w[kPacks][kPack], largest = -INFINITY, sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const bool there = p * 32 + lane < packs;
    const float4 four =
        there ? scores[p * 32 + lane] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    w[p][0] = four.x;
    w[p][1] = four.y;
    w[p][2] = four.z;
    w[p][3] = four.w;
#pragma unroll
    for (int j = 0; j < kPack; ++j) largest = fmaxf(largest, w[p][j]);
  }
#pragma unroll
  for (int far = 16; far > 0; far /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, far));
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      w[p][j] = expf(w[p][j] - largest);
      sum += w[p][j];
    }
  const float factor = 1 / sum_of_warp(sum);
  const int64_t place = (slab * task.rows + task.first + row % task.count) * task.columns + column;
  bool stays[kPacks][kPack];
  float dp[kPacks][kPack], delta = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = p * 32 + lane;
    const bool there = pack < packs;
    Philox4 drawn = {};
    if (task.key) drawn = philox_site(task.key[0], task.key[1], task.site, place / kPack + pack);
    float4 four = {};
    if (gradient && there) four = gradient[pack];
    const float slope[kPack] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      w[p][j] *= factor;
      stays[p][j] = !task.key || philox_unit(drawn.word[j]) >= static_cast<float>(task.rate);
      dp[p][j] = stays[p][j] ? slope[j] : 0;
      delta += w[p][j] * dp[p][j];
    }
  }
  if (gradient) delta = sum_of_warp(delta);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = p * 32 + lane;
    if (pack >= packs) continue;
    if (gradient)
      gradient[pack] = make_float4(w[p][0] * (dp[p][0] - delta), w[p][1] * (dp[p][1] - delta),
                                   w[p][2] * (dp[p][2] - delta), w[p][3] * (dp[p][3] - delta));
    scores[pack] = make_float4(stays[p][0] ? w[p][0] : 0, stays[p][1] ? w[p][1] : 0,
                               stays[p][2] ? w[p][2] : 0, stays[p][3] ? w[p][3] : 0);
  }
}

}  // namespace

void group_softmax_cuda(const GroupSoftmax& task, void* stream) noexcept {
  const int64_t groups = task.slabs * task.count * (task.columns / task.group);
  const auto blocks = static_cast<unsigned>((groups + kWarps - 1) / kWarps);
  if (task.group <= 128)
    launch(weigh<1>, blocks, kThreads, 0, stream, task);
  else if (task.group <= 256)
    launch(weigh<2>, blocks, kThreads, 0, stream, task);
  else
    launch(weigh<4>, blocks, kThreads, 0, stream, task);
}

}  // namespace longbow::kernels

// A thread takes eight neighbouring numbers of a row of the result.
#include <cuda_runtime.h>

#include "longbow/kernels/cuda/eight.h"
#include "longbow/kernels/shared_heads.h"

namespace longbow::kernels {
namespace {

constexpr int kThreads = 256, kPack = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) sum(SumHeads task, int64_t packs) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x, row = i / packs;
  if (row >= task.batch * task.tokens) return;
  const int64_t batch = row / task.tokens, token = row % task.tokens;
  auto column = static_cast<int>(i % packs) * kPack;
#pragma unroll
  for (int p = 0; p < SumHeads::kMostParts; ++p) {
    if (p >= task.parts) return;
    const auto& part = task.part[p];
    const auto width = static_cast<int>(part.width), all = static_cast<int>(part.heads) * width;
    if (column >= all) {
      column -= all;
      continue;
    }
    const int head = column / width, channel = column % width;
    Eight sum = {};
#pragma unroll
    for (int t = 0; t < SumHeads::kMostTerms; ++t) {
      if (t >= part.terms) break;
      const auto& from = part.from[t];
      add(sum, 1,
          read(static_cast<const T*>(from.data) + batch * from.batch + head * from.head +
               token * from.token + channel));
    }
    write(static_cast<T*>(task.out) + i * kPack, sum);
    return;
  }
}

}  // namespace

void sum_heads_cuda(const SumHeads& task, void* stream) noexcept {
  int64_t packs = 0;
  for (int p = 0; p < task.parts; ++p) packs += task.part[p].heads * task.part[p].width / kPack;
  const auto blocks =
      static_cast<unsigned>((task.batch * task.tokens * packs + kThreads - 1) / kThreads);
  launch(task.type == Element::bfloat16 ? sum<__nv_bfloat16> : sum<__half>, blocks, kThreads, 0,
         stream, task, packs);
}

}  // namespace longbow::kernels

#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/dropout.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

template <class T>
constexpr int kBlocks = sizeof(T) == 2 ? 2 : 1;  // that a thread draws: four numbers each
template <class T>
struct alignas(4 * kBlocks<T> * sizeof(T)) Pack {
  T item[4 * kBlocks<T>];
};

template <class T, class Wide>
__global__ void drop(Dropout task, Wide kept, bool whole) {
  constexpr int kItems = 4 * kBlocks<T>;
  const int64_t first = kItems * (blockIdx.x * int64_t{blockDim.x} + threadIdx.x);
  if (first >= task.count) return;
  const auto rate = static_cast<float>(task.rate);
  const auto* const x = static_cast<const T*>(task.x) + first;
  const auto* const added = task.added ? static_cast<const T*>(task.added) + first : nullptr;
  auto* const y = static_cast<T*>(task.y) + first;
  const bool all = whole && first + kItems <= task.count;
  Pack<T> in = {}, more = {}, out;
  if (all) {
    in = *reinterpret_cast<const Pack<T>*>(x);
    if (added) more = *reinterpret_cast<const Pack<T>*>(added);
  } else {
    for (int i = 0; i < kItems && first + i < task.count; ++i) {
      in.item[i] = x[i];
      if (added) more.item[i] = added[i];
    }
  }
#pragma unroll
  for (int b = 0; b < kBlocks<T>; ++b) {
    const auto block =
        philox_site(task.key[0], task.key[1], task.site, (task.first + first) / 4 + b);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = 4 * b + j;
      const Wide left =
          philox_unit(block.word[j]) >= rate ? static_cast<Wide>(in.item[i]) * kept : Wide{0};
      out.item[i] = static_cast<T>(added ? static_cast<Wide>(more.item[i]) + left : left);
    }
  }
  if (all) {
    *reinterpret_cast<Pack<T>*>(y) = out;
    return;
  }
  for (int i = 0; i < kItems && first + i < task.count; ++i) y[i] = out.item[i];
}

template <class T, class Wide>
void drop_all(const Dropout& task, void* stream) {
  constexpr int64_t kThreads = 256, kOfBlock = 4 * kBlocks<T> * kThreads;
  const int64_t blocks = (task.count + kOfBlock - 1) / kOfBlock;
  const auto aligned = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % sizeof(Pack<T>) == 0;
  };
  launch(drop<T, Wide>, static_cast<unsigned>(blocks), kThreads, 0, stream, task,
         static_cast<Wide>(1 / (1 - task.rate)),
         aligned(task.x) && aligned(task.y) && aligned(task.added));
}

}  // namespace

void dropout_cuda(const Dropout& task, void* stream) noexcept {
  switch (task.type) {
    case Element::float64:
      return drop_all<double, double>(task, stream);
    case Element::float32:
      return drop_all<float, float>(task, stream);
    case Element::bfloat16:
      return drop_all<__nv_bfloat16, float>(task, stream);
    case Element::float16:
      return drop_all<__half, float>(task, stream);
  }
}

}  // namespace longbow::kernels

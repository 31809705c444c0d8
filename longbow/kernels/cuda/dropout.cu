#include "longbow/kernels/cuda/device.h"
#include "longbow/kernels/dropout.h"
#include "longbow/kernels/philox_rounds.h"

namespace longbow::kernels {
namespace {

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T item[4];
};

// A thread draws one block: four numbers.
template <class T, class Wide>
__global__ void drop(Dropout task, bool whole) {
  const int64_t i = 4 * (blockIdx.x * int64_t{blockDim.x} + threadIdx.x);
  if (i >= task.count) return;
  const auto block = philox_site(task.key[0], task.key[1], task.site, (task.first + i) / 4);
  const auto rate = static_cast<float>(task.rate);
  const auto kept = static_cast<Wide>(1 / (1 - task.rate));
  const auto* x = static_cast<const T*>(task.x) + i;
  auto* y = static_cast<T*>(task.y) + i;
  const auto dropped = [&](T value, int j) {
    return philox_unit(block.word[j]) >= rate ? static_cast<T>(static_cast<Wide>(value) * kept)
                                              : static_cast<T>(Wide{0});
  };
  if (whole && i + 4 <= task.count) {
    const auto four = *reinterpret_cast<const Four<T>*>(x);
    *reinterpret_cast<Four<T>*>(y) = {{dropped(four.item[0], 0), dropped(four.item[1], 1),
                                       dropped(four.item[2], 2), dropped(four.item[3], 3)}};
    return;
  }
  for (int j = 0; j < 4 && i + j < task.count; ++j) y[j] = dropped(x[j], j);
}

template <class T, class Wide>
void drop_all(const Dropout& task, void* stream) {
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (task.count + 4 * kThreads - 1) / (4 * kThreads);
  const auto aligned = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % sizeof(Four<T>) == 0;
  };
  launch(drop<T, Wide>, static_cast<unsigned>(blocks), kThreads, 0, stream, task,
         aligned(task.x) && aligned(task.y));
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
